// Kernels of merges by collectives: fixed-point scales, masks, and grids from merged parts.
#include <cmath>

#include "sensor/ops/cuda_launch.cuh"
#include "sensor/ops/voxel_values.h"
#include "sensor/ops/voxels/voxel_plan.h"

namespace amdahl {
namespace {

using namespace sensor_cuda;

constexpr int kThreads = 256, kMostThreads = 1024, kBlocksPerSm = 8;

/// Magnitudes of floats have the order of their bits.
__device__ uint32_t block_max(uint32_t bits) {
  __shared__ uint32_t of_warps[32];
  bits = __reduce_max_sync(~0u, bits);
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = bits;
  __syncthreads();
  return __reduce_max_sync(~0u, threadIdx.x % 32 < blockDim.x / 32 ? of_warps[threadIdx.x % 32] : 0u);
}

template <class T, int N>
__global__ void find_largest(const T* features, int64_t packs, uint32_t* largest) {
  let_successor_start();
  wait_for_predecessor();
  float most = 0;
#pragma unroll 4
  for (int64_t i = thread_index(); i < packs; i += thread_count()) {
    const Pack<T, N> pack = reinterpret_cast<const Pack<T, N>*>(features)[i];
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const float size = fabsf(as_float(pack.at[k]));
      if (size > most && isfinite(size)) most = size;
    }
  }
  const uint32_t bits = block_max(__float_as_uint(most));
  if (threadIdx.x == 0) largest[blockIdx.x] = bits;
}

/// fixed_point_scale_of on the device.
__global__ void make_scale(const uint32_t* largest_of_blocks, int blocks, float* scale, int64_t num_points) {
  let_successor_start();
  wait_for_predecessor();
  constexpr int kSumBits = 62, kLeast = -126, kMost = 127;
  const int at = static_cast<int>(threadIdx.x);
  const float largest = __uint_as_float(block_max(at < blocks ? largest_of_blocks[at] : 0u));
  const int value_bits = largest > 0 ? ilogbf(largest) + 1 : 0;
  const int count_bits = 64 - __clzll(max(static_cast<long long>(num_points), 1ll));
  const int power = largest > 0 ? min(max(kSumBits - value_bits - count_bits, kLeast), kMost) : kMost;
  if (at == 0) *scale = ldexpf(1.0f, power);
}

__global__ void merge_mask_words(uint32_t* mask, const uint32_t* other, int64_t num_words) {
  for (int64_t i = thread_index(); i < num_words; i += thread_count()) mask[i] |= other[i];
}

__global__ void expand_mask_words(const uint32_t* mask, int32_t* grid, int64_t num_voxels) {
  const bool aligned = reinterpret_cast<uintptr_t>(grid) % sizeof(int4) == 0;
  for (int64_t i = thread_index() * 4; i < num_voxels; i += thread_count() * 4)
    write_bits_as_numbers(mask[i / 32] >> (i % 32), i, num_voxels, aligned, grid);
}

/// Converts byte counts to numbers, four voxels at a time.
__global__ void widen_bytes(const uint32_t* bytes, int32_t* grid, int64_t num_voxels) {
  wait_for_predecessor();
  let_successor_start();
  const bool aligned = reinterpret_cast<uintptr_t>(grid) % sizeof(int4) == 0;
#pragma unroll 2
  for (int64_t i = thread_index() * 4; i < num_voxels; i += thread_count() * 4)
    write_bytes_as_numbers(bytes[i / 4], i, num_voxels, aligned, grid);
}

/// One block per rank's overflow list.
__global__ void __launch_bounds__(kMostThreads) add_lists(ByteCounts layout, void* buffer, int32_t* grid) {
  wait_for_predecessor();
  let_successor_start();
  auto* list =
      reinterpret_cast<OverflowCount*>(static_cast<char*>(buffer) + layout.list_at(static_cast<int>(blockIdx.x)));
  const int64_t length = list->voxel;
  __syncthreads();
  for (int64_t i = threadIdx.x; i <= length; i += blockDim.x) {
    if (i > 0) atomicAdd(grid + list[i].voxel, list[i].count);
    list[i] = {};
  }
}

/// Divides sums by counts; `grid` may be `sums`.
template <class Sum>
__global__ void divide(const Sum* sums, const int32_t* counts, const float* scale, float* grid, int64_t values,
                       int64_t num_features) {
  for (int64_t i = thread_index(); i < values; i += thread_count()) {
    const int32_t count = counts[i / num_features];
    if (count == 0)
      grid[i] = 0;
    else if constexpr (sizeof(Sum) == sizeof(float))
      grid[i] = __fdiv_rn(sums[i], static_cast<float>(count));
    else
      grid[i] = static_cast<float>(static_cast<double>(sums[i]) / (static_cast<double>(*scale) * count));
  }
}

/// final_max of voxel_values.h; writes only values that change.
__global__ void finish_max(float* grid, int64_t values) {
  constexpr int kNone = static_cast<int>(0xff800000u), kNegativeZero = static_cast<int>(0x80000000u);
  for (int64_t i = thread_index(); i < values; i += thread_count()) {
    const int bits = __float_as_int(grid[i]);
    if (bits == kNone || bits == kNegativeZero) grid[i] = 0;
  }
}

}  // namespace

void launch_fixed_point_scale(const SensorLaunch& launch, const VoxelizeProblem& problem, int64_t num_points_of_all,
                              float* scale) {
  auto* largest = reinterpret_cast<uint32_t*>(static_cast<char*>(problem.scratch) +
                                              plan_voxels(problem, launch.num_sms, launch.limits.most_shared).largest);
  const int64_t values = problem.num_points * problem.num_features;
  unsigned blocks = 0;
  if (values > 0)
    with_type(problem.feature_type, [&](auto type) {
      using T = decltype(type);
      constexpr int kPack = 16 / sizeof(T);
      const auto* features = static_cast<const T*>(problem.features);
      const bool packed = values % kPack == 0 && reinterpret_cast<uintptr_t>(features) % 16 == 0;
      const int64_t packs = packed ? values / kPack : values;
      blocks = std::min<unsigned>(num_blocks(launch, packs, kThreads, kBlocksPerSm), kScaleBlocks);
      if (packed)
        launch_early(launch, blocks, kThreads, 0, &find_largest<T, kPack>, "find_largest", features, packs, largest);
      else
        launch_early(launch, blocks, kThreads, 0, &find_largest<T, 1>, "find_largest", features, packs, largest);
    });
  launch_early(launch, 1, kScaleBlocks, 0, &make_scale, "make_scale", largest, static_cast<int>(blocks), scale,
               num_points_of_all);
}

void launch_add_byte_counts(const SensorLaunch& launch, const ByteCounts& layout, void* buffer, int32_t* grid) {
  launch_early(launch, num_blocks(launch, (layout.num_voxels + 3) / 4, kThreads, kBlocksPerSm), kThreads, 0,
               &widen_bytes, "widen_bytes", static_cast<const uint32_t*>(buffer), grid, layout.num_voxels);
  launch_early(launch, static_cast<unsigned>(layout.world_size), kMostThreads, 0, &add_lists, "add_lists", layout,
               buffer, grid);
}

void launch_merge_masks(const SensorLaunch& launch, uint32_t* mask, const uint32_t* other, int64_t num_words) {
  merge_mask_words<<<num_blocks(launch, num_words, kThreads, kBlocksPerSm), kThreads, 0, launch.stream>>>(mask, other,
                                                                                                          num_words);
  check_launch(launch, "merge_masks");
}

void launch_expand_mask(const SensorLaunch& launch, const uint32_t* mask, int32_t* grid, int64_t num_voxels) {
  expand_mask_words<<<num_blocks(launch, (num_voxels + 3) / 4, kThreads, kBlocksPerSm), kThreads, 0, launch.stream>>>(
      mask, grid, num_voxels);
  check_launch(launch, "expand_mask");
}

void launch_finish(const SensorLaunch& launch, const VoxelizeProblem& merged) {
  const int64_t values = num_voxels(merged.grid) * merged.num_features;
  if (values == 0) return;
  auto* grid = static_cast<float*>(merged.output);
  const unsigned blocks = num_blocks(launch, values, kThreads, kBlocksPerSm);
  if (merged.options.mode == VoxelMode::max)
    finish_max<<<blocks, kThreads, 0, launch.stream>>>(grid, values);
  else if (merged.options.deterministic)
    divide<<<blocks, kThreads, 0, launch.stream>>>(static_cast<const int64_t*>(merged.sums), merged.counts,
                                                   merged.scale, grid, values, merged.num_features);
  else
    divide<<<blocks, kThreads, 0, launch.stream>>>(static_cast<const float*>(merged.sums), merged.counts, merged.scale,
                                                   grid, values, merged.num_features);
  check_launch(launch, "finish");
}

}  // namespace amdahl
