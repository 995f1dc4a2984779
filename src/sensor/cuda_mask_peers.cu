// One kernel that merges bit masks of several GPUs: every rank reads the others' masks and writes its own grid.
#include "device/cuda_peer_flags.cuh"
#include "sensor/cuda_launch.cuh"
#include "sensor/cuda_mask_peers.h"

namespace amdahl {
namespace {

using namespace sensor_cuda;

constexpr int kThreads = 512;
constexpr int kPiece = kThreads * 4;  // words that a block merges at once

/// Called by all threads of a block; says the same to all. `announce`: this block tells the other ranks.
__device__ bool meet(const MaskLaunch& p, uint64_t (MaskFlags::*flags)[kMaxMaskPeers], uint64_t number, bool announce) {
  const int peer = static_cast<int>(threadIdx.x);
  bool met = true;
  if (peer < p.num_ranks && peer != p.rank) {
    MaskFlags* own = p.flags[p.rank];
    if (announce) store_release(&(p.flags[peer]->*flags)[p.rank], number);
    met = await_flag(&(own->*flags)[peer], number, peer, &own->broken, p.report, p.timeout_ns);
  }
  return __syncthreads_and(met);
}

/// Past the first-level cache, which may hold what a peer's memory was at the last merge.
__device__ __forceinline__ uint4 load_fresh(const uint32_t* from) {
  uint4 v;
  asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(from));
  return v;
}

/// Four words of the OR, starting at a multiple of four. Masks are allocated in whole vectors.
__device__ __forceinline__ uint4 merged_words(const MaskLaunch& p, int64_t word) {
  uint4 all = make_uint4(0, 0, 0, 0);
#pragma unroll 4
  for (int i = 0; i < p.num_ranks; ++i) {
    const uint4 v = load_fresh(p.masks[i] + word);
    all.x |= v.x, all.y |= v.y, all.z |= v.z, all.w |= v.w;
  }
  return all;
}

__global__ void __launch_bounds__(kThreads)
    merge_masks(MaskLaunch p, int64_t num_voxels, int32_t* grid, uint32_t* merged) {
  __shared__ uint32_t words[kPiece];
  MaskFlags* own = p.flags[p.rank];
  const uint64_t number = own->ended + 1;
  const int64_t num_words = (num_voxels + 31) / 32;
  __threadfence_system();
  const bool met = !own->broken && meet(p, &MaskFlags::entered, number, blockIdx.x == 0);
  // Pieces are small enough that every block has one.
  const int64_t share = ((num_words + gridDim.x - 1) / gridDim.x + 3) / 4 * 4;
  const int64_t end = min(num_words, (blockIdx.x + 1) * share);
  for (int64_t first = blockIdx.x * share; met && first < end; first += kPiece) {
    const int64_t count = min(static_cast<int64_t>(kPiece), end - first);
    if (threadIdx.x * 4 < count) {
      const uint4 four = merged_words(p, first + threadIdx.x * 4);
      reinterpret_cast<uint4*>(words)[threadIdx.x] = four;
    }
    __syncthreads();
    for (int64_t i = threadIdx.x; merged && i < count; i += kThreads) merged[first + i] = words[i];
    const int64_t voxels = min(count * 32, num_voxels - first * 32);
    for (int64_t i = threadIdx.x * 4; grid && i < voxels; i += kThreads * 4) {
      const uint32_t bits = words[i / 32] >> (i % 32);
      const int4 four = make_int4(bits & 1, bits >> 1 & 1, bits >> 2 & 1, bits >> 3 & 1);
      int32_t* to = grid + first * 32 + i;
      if (i + 4 <= voxels && reinterpret_cast<uintptr_t>(to) % sizeof(int4) == 0) {
        *reinterpret_cast<int4*>(to) = four;
        continue;
      }
      for (int k = 0; k < 4 && i + k < voxels; ++k) to[k] = static_cast<int32_t>(bits >> k & 1);
    }
    __syncthreads();
  }
  // The last block to end tells the others that this rank reads no more, and waits until none reads this rank's mask.
  __shared__ bool last;
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence_system();
    last = atomicAdd(&own->finished_blocks, 1u) == gridDim.x - 1;
  }
  __syncthreads();
  if (!last) return;
  const bool left = met && meet(p, &MaskFlags::left, number, true);
  if (threadIdx.x != 0) return;
  own->finished_blocks = 0;
  own->ended = number;
  if (!left) own->broken = 1;
}

}  // namespace

void launch_merge_peer_masks(const SensorLaunch& launch, const MaskLaunch& peers, int64_t num_voxels, int32_t* grid,
                             uint32_t* merged) {
  const int64_t pieces = ((num_voxels + 31) / 32 + 127) / 128;
  const auto blocks = static_cast<unsigned>(std::clamp<int64_t>(pieces, 1, launch.num_sms * 2));
  merge_masks<<<blocks, kThreads, 0, launch.stream>>>(peers, num_voxels, grid, merged);
  check_launch(launch, "merge_masks");
}

}  // namespace amdahl
