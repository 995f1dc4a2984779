// One kernel that merges bit masks of several GPUs: every rank sends its mask to the others and writes its own grid.
#include "device/cuda_peer_flags.cuh"
#include "sensor/cuda_launch.cuh"
#include "sensor/cuda_mask_peers.h"

namespace amdahl {
namespace {

using namespace sensor_cuda;

constexpr int kThreads = 256;
constexpr int kStrip = kThreads * 4;  // words that a block merges at once
static_assert(sizeof(MaskFlags) % sizeof(uint4) == 0);

/// Where rank `to` has the mask of rank `from` in this merge.
__device__ __forceinline__ uint32_t* inbox(const MaskLaunch& p, int to, int from, uint64_t number) {
  const int64_t place = static_cast<int64_t>(number % 2) * p.num_ranks + from;
  return reinterpret_cast<uint32_t*>(p.shared[to] + 1) + place * p.mask_words;
}

/// Past the first-level cache, which may hold what the inbox was two merges ago.
__device__ __forceinline__ uint4 load_fresh(const uint32_t* from) {
  uint4 v;
  asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(from));
  return v;
}

/// Sends words [first, first + count) of this rank's mask to all other ranks, and says so; count is a multiple of 4.
__device__ void send_piece(const MaskLaunch& p, const uint32_t* mask, int64_t first, int count, uint64_t number) {
  const int vectors = count / 4, others = p.num_ranks - 1;
  for (int i = static_cast<int>(threadIdx.x); i < vectors * others; i += kThreads) {
    const int to = (p.rank + 1 + i / vectors) % p.num_ranks;  // ranks send to different ones at a time
    const int64_t word = first + i % vectors * 4;
    *reinterpret_cast<uint4*>(inbox(p, to, p.rank, number) + word) = *reinterpret_cast<const uint4*>(mask + word);
  }
  __syncthreads();
  const int to = static_cast<int>(threadIdx.x);
  if (to < p.num_ranks && to != p.rank) {
    __threadfence_system();
    store_release(&p.shared[to]->sent[p.rank][blockIdx.x], number);
  }
}

/// Whether the block's piece of every other rank has come; the same for all threads.
__device__ bool await_piece(const MaskLaunch& p, uint64_t number) {
  const int from = static_cast<int>(threadIdx.x);
  MaskFlags* own = p.shared[p.rank];
  bool come = true;
  if (from < p.num_ranks && from != p.rank)
    come = await_flag(&own->sent[from][blockIdx.x], number, from, &own->broken, p.report, p.timeout_ns);
  return __syncthreads_and(come);
}

/// Four words of the OR, starting at a multiple of four.
__device__ __forceinline__ uint4 merged_words(const MaskLaunch& p, const uint32_t* mask, int64_t word,
                                              uint64_t number) {
  uint4 all = *reinterpret_cast<const uint4*>(mask + word);
#pragma unroll 4
  for (int from = 0; from < p.num_ranks; ++from) {
    if (from == p.rank) continue;
    const uint4 v = load_fresh(inbox(p, p.rank, from, number) + word);
    all.x |= v.x, all.y |= v.y, all.z |= v.z, all.w |= v.w;
  }
  return all;
}

/// Voxels [0, voxels) of a strip whose bits are in `words`.
__device__ __forceinline__ void write_voxels(const uint32_t* words, int64_t voxels, int32_t* grid) {
  const bool aligned = reinterpret_cast<uintptr_t>(grid) % sizeof(int4) == 0;
  for (int64_t i = static_cast<int64_t>(threadIdx.x) * 4; i < voxels; i += kThreads * 4) {
    const uint32_t bits = words[i / 32] >> (i % 32);
    if (aligned && i + 4 <= voxels) {
      *reinterpret_cast<int4*>(grid + i) = make_int4(bits & 1, bits >> 1 & 1, bits >> 2 & 1, bits >> 3 & 1);
      continue;
    }
    for (int k = 0; k < 4 && i + k < voxels; ++k) grid[i + k] = static_cast<int32_t>(bits >> k & 1);
  }
}

__global__ void __launch_bounds__(kThreads)
    merge_masks(MaskLaunch p, const uint32_t* mask, int32_t* grid, uint32_t* merged) {
  __shared__ alignas(16) uint32_t words[kStrip];
  cudaGridDependencySynchronize();
  cudaTriggerProgrammaticLaunchCompletion();
  MaskFlags* own = p.shared[p.rank];
  const uint64_t number = own->ended + 1;
  const int64_t num_words = (p.num_voxels + 31) / 32;
  const int64_t first = blockIdx.x * p.piece_words, rounded = (num_words + 3) / 4 * 4;
  const int count = static_cast<int>(min(p.piece_words, rounded - first));
  bool come = !own->broken;
  if (come) {
    send_piece(p, mask, first, count, number);
    come = await_piece(p, number);
  }
  for (int strip = 0; come && strip < count; strip += kStrip) {
    const int64_t word = first + strip;
    if (strip + static_cast<int>(threadIdx.x) * 4 < count)
      reinterpret_cast<uint4*>(words)[threadIdx.x] = merged_words(p, mask, word + threadIdx.x * 4, number);
    __syncthreads();
    const int64_t here = min(static_cast<int64_t>(min(kStrip, count - strip)), num_words - word);
    for (int64_t i = threadIdx.x; merged && i < here; i += kThreads) merged[word + i] = words[i];
    if (grid) write_voxels(words, min(here * 32, p.num_voxels - word * 32), grid + word * 32);
    __syncthreads();
  }
  if (threadIdx.x != 0) return;
  if (!come) own->broken = 1;
  __threadfence();
  if (atomicAdd(&own->finished_pieces, 1u) != gridDim.x - 1) return;
  own->finished_pieces = 0;
  own->ended = number;
}

}  // namespace

void launch_merge_peer_masks(const SensorLaunch& launch, const MaskLaunch& peers, const uint32_t* mask, int32_t* grid,
                             uint32_t* merged) {
  const auto pieces = static_cast<unsigned>(std::max<int64_t>(1, peers.mask_words / peers.piece_words));
  launch_early(launch, pieces, kThreads, 0, &merge_masks, "merge_masks", peers, mask, grid, merged);
}

}  // namespace amdahl
