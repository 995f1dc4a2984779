// Host functions that enqueue the kernels of a voxelization.
#pragma once

#include "sensor/ops/voxels/cuda_voxelize.cuh"

namespace amdahl {

/// Sorts tiles of points by bin: 32-bit entries with values, 16-bit entries without.
void launch_partition(const SensorLaunch& launch, const VoxelizeProblem& problem, const sensor_cuda::BinArgs& bins);

void launch_voxel_atomics(const SensorLaunch& launch, const VoxelizeProblem& problem, const sensor_cuda::BinArgs& bins);
void launch_voxel_scatter(const SensorLaunch& launch, const VoxelizeProblem& problem, const sensor_cuda::BinArgs& bins);
void launch_voxel_cells(const SensorLaunch& launch, const VoxelizeProblem& problem, const sensor_cuda::BinArgs& bins);
void launch_voxel_packed(const SensorLaunch& launch, const VoxelizeProblem& problem, const sensor_cuda::BinArgs& bins);
void launch_voxel_gather(const SensorLaunch& launch, const VoxelizeProblem& problem, const sensor_cuda::BinArgs& bins);
void launch_voxel_lists(const SensorLaunch& launch, const VoxelizeProblem& problem, const sensor_cuda::BinArgs& bins);
/// `lists` for only the overfull bins that `gather` has skipped.
void launch_overfull_lists(const SensorLaunch& launch, const VoxelizeProblem& problem,
                           const sensor_cuda::BinArgs& bins);

}  // namespace amdahl
