// The CUDA kernels of the sensor operations, as host functions that enqueue them.
#pragma once

#include <cuda_runtime_api.h>

#include "sensor/sensor_ops.h"

namespace amdahl {

/// In what GPUs differ.
struct ChipLimits {
  size_t most_shared = 0;  // bytes of shared memory that a block may have
  bool early = false;      // kernels may start beside the end of their predecessor: compute capability 9.0 and up
};

/// Where a kernel runs, and what is there for it.
struct SensorLaunch {
  cudaStream_t stream = nullptr;
  int device_index = 0;
  int num_sms = 1;
  ChipLimits limits;
};

/// As make_cuda_sensor_ops, on a device that has this much or more.
std::unique_ptr<SensorOps> make_cuda_sensor_ops(Device& device, const ChipLimits& limits);

void launch_fuse(const SensorLaunch& launch, const FuseProblem& problem);
void launch_check_times(const SensorLaunch& launch, const std::vector<TimesRows>& rows, TimesFault* faults);

size_t cuda_voxelize_scratch_bytes(const SensorLaunch& launch, const VoxelizeProblem& problem);
void launch_voxelize(const SensorLaunch& launch, const VoxelizeProblem& problem);

void launch_fixed_point_scale(const SensorLaunch& launch, const VoxelizeProblem& problem, int64_t num_points_of_all,
                              float* scale);
void launch_finish(const SensorLaunch& launch, const VoxelizeProblem& merged);
/// In one pass over the bytes and one over the lists.
void launch_add_byte_counts(const SensorLaunch& launch, const ByteCounts& layout, void* buffer, int32_t* grid);
void launch_merge_masks(const SensorLaunch& launch, uint32_t* mask, const uint32_t* other, int64_t num_words);
void launch_expand_mask(const SensorLaunch& launch, const uint32_t* mask, int32_t* grid, int64_t num_voxels);

}  // namespace amdahl
