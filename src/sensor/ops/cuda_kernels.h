// Host functions that enqueue the CUDA kernels of the sensor operations.
#pragma once

#include <cuda_runtime_api.h>

#include "sensor/ops/sensor_ops.h"

namespace amdahl {

/// Properties in which GPUs differ.
struct ChipLimits {
  size_t most_shared = 0;  // largest shared memory of a block, bytes
  bool early = false;      // programmatic dependent launch: compute capability 9.0 and higher
};

/// Stream, device and limits of a launch.
struct SensorLaunch {
  cudaStream_t stream = nullptr;
  int device_index = 0;
  int num_sms = 1;
  ChipLimits limits;
};

/// As make_cuda_sensor_ops, with limits that the device meets or exceeds.
std::unique_ptr<SensorOps> make_cuda_sensor_ops(Device& device, const ChipLimits& limits);

void launch_fuse(const SensorLaunch& launch, const FuseProblem& problem);
void launch_check_times(const SensorLaunch& launch, const std::vector<TimesRows>& rows, TimesFault* faults);

size_t cuda_voxelize_scratch_bytes(const SensorLaunch& launch, const VoxelizeProblem& problem);
void launch_voxelize(const SensorLaunch& launch, const VoxelizeProblem& problem);

void launch_fixed_point_scale(const SensorLaunch& launch, const VoxelizeProblem& problem, int64_t num_points_of_all,
                              float* scale);
void launch_finish(const SensorLaunch& launch, const VoxelizeProblem& merged);
/// One pass over the bytes and one over the overflow lists.
void launch_add_byte_counts(const SensorLaunch& launch, const ByteCounts& layout, void* buffer, int32_t* grid);
void launch_merge_masks(const SensorLaunch& launch, uint32_t* mask, const uint32_t* other, int64_t num_words);
void launch_expand_mask(const SensorLaunch& launch, const uint32_t* mask, int32_t* grid, int64_t num_voxels);

}  // namespace amdahl
