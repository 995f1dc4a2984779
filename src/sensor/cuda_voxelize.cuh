// What the two steps of a voxelization share on the device.
#pragma once

#include "sensor/cuda_launch.cuh"
#include "sensor/voxel_plan.h"

namespace amdahl::sensor_cuda {

/// The grid as kernels see it.
struct GridArgs {
  float minimum[3];
  float edge;
  int size[3];
  int64_t stride[3];
  bool clamp, fast_quotient;
};

/// Bins of one slab, and the sorted points.
struct BinArgs {
  int64_t first_voxel, num_voxels;  // of the slab
  uint32_t num_bins, bin_chunks;
  uint64_t magic;
  int tile_points;
  int64_t num_tiles;
  uint32_t* entries;  // [tiles, tile_points]
  uint16_t* table;    // [tiles, bins + 1], where each bin's segment begins
  uint32_t* order;    // room for lists that do not fit into shared memory
  uint32_t* cursor;   // of it
};

/// Slab-local voxel of an offset in a bin.
__device__ __forceinline__ int64_t voxel_of(const BinArgs& bins, uint32_t bin, uint32_t offset) {
  return (static_cast<int64_t>(offset / kChunkVoxels) * bins.num_bins + bin) * kChunkVoxels + offset % kChunkVoxels;
}

/// Calls visit(entry, tile) for every entry of a bin. Groups of lanes take a segment each.
template <int kLanesOfGroup, class Visit>
__device__ __forceinline__ void for_each_entry(const BinArgs& bins, uint32_t bin, const Visit& visit) {
  const int lane = threadIdx.x % kLanesOfGroup, groups = blockDim.x / kLanesOfGroup;
  constexpr int kAhead = 4;  // segments whose bounds are read together
  const int64_t row = bins.num_bins + 1;
  for (int64_t first = threadIdx.x / kLanesOfGroup; first < bins.num_tiles; first += groups * kAhead) {
    int begin[kAhead], end[kAhead];
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      const int64_t tile = first + k * groups;
      begin[k] = end[k] = 0;
      if (tile >= bins.num_tiles) continue;
      begin[k] = bins.table[tile * row + bin], end[k] = bins.table[tile * row + bin + 1];
    }
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      const int64_t tile = first + k * groups;
      for (int e = begin[k] + lane; e < end[k]; e += kLanesOfGroup)
        visit(bins.entries[tile * bins.tile_points + e], tile);
    }
  }
}

/// Exclusive sums of data[0, count) over the block, in place; returns the total. `warps` has 32 words.
template <int kThreads>
__device__ uint32_t scan_block(uint32_t* data, uint32_t count, uint32_t* warps) {
  const uint32_t each = (count + kThreads - 1) / kThreads;
  const uint32_t begin = min(threadIdx.x * each, count), end = min(begin + each, count);
  uint32_t sum = 0;
  for (uint32_t i = begin; i < end; ++i) sum += data[i];
  uint32_t inclusive = sum;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
  for (int d = 1; d < 32; d *= 2) {
    const uint32_t below = __shfl_up_sync(~0u, inclusive, d);
    if (lane >= d) inclusive += below;
  }
  if (lane == 31) warps[warp] = inclusive;
  __syncthreads();
  if (warp == 0) {
    uint32_t of_warp = lane < kThreads / 32 ? warps[lane] : 0;
#pragma unroll
    for (int d = 1; d < 32; d *= 2) {
      const uint32_t below = __shfl_up_sync(~0u, of_warp, d);
      if (lane >= d) of_warp += below;
    }
    if (lane < kThreads / 32) warps[lane] = of_warp;
  }
  __syncthreads();
  uint32_t running = inclusive - sum + (warp > 0 ? warps[warp - 1] : 0);
  const uint32_t total = warps[kThreads / 32 - 1];
  for (uint32_t i = begin; i < end; ++i) {
    const uint32_t own = data[i];
    data[i] = running;
    running += own;
  }
  __syncthreads();
  return total;
}

/// Launches a kernel that may come onto the chip while its predecessor ends; it waits for that by itself.
template <class... Parameters, class... Arguments>
void launch_early(const SensorLaunch& launch, unsigned blocks, unsigned threads, size_t shared_bytes,
                  void (*kernel)(Parameters...), const char* name, Arguments... arguments) {
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(threads);
  config.dynamicSmemBytes = shared_bytes;
  config.stream = launch.stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  cuda_check(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...), launch.device_index, name);
}

/// Lets a kernel use this much dynamic shared memory.
template <class Kernel>
void allow_shared(const SensorLaunch& launch, Kernel* kernel, size_t bytes) {
  cuda_check(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  static_cast<int>(bytes)),
             launch.device_index, "cudaFuncSetAttribute");
}

}  // namespace amdahl::sensor_cuda
