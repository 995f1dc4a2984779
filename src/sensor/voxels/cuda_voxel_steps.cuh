// The kernels of a voxelization on the GPU, as functions that enqueue them.
#pragma once

#include "sensor/voxels/cuda_voxelize.cuh"

namespace amdahl {

/// Sorts tiles of points by bin: 32-bit entries of values, 16-bit ones of others.
void launch_partition(const SensorLaunch& launch, const VoxelizeProblem& problem, const sensor_cuda::BinArgs& bins);

void launch_voxel_atomics(const SensorLaunch& launch, const VoxelizeProblem& problem, const sensor_cuda::BinArgs& bins);
void launch_voxel_scatter(const SensorLaunch& launch, const VoxelizeProblem& problem, const sensor_cuda::BinArgs& bins);
void launch_voxel_packed(const SensorLaunch& launch, const VoxelizeProblem& problem, const sensor_cuda::BinArgs& bins);
void launch_voxel_marks(const SensorLaunch& launch, const VoxelizeProblem& problem, const sensor_cuda::BinArgs& bins);
void launch_voxel_gather(const SensorLaunch& launch, const VoxelizeProblem& problem, const sensor_cuda::BinArgs& bins);
void launch_voxel_lists(const SensorLaunch& launch, const VoxelizeProblem& problem, const sensor_cuda::BinArgs& bins);
/// The lists of overfull bins alone, which `gather` leaves.
void launch_overfull_lists(const SensorLaunch& launch, const VoxelizeProblem& problem,
                           const sensor_cuda::BinArgs& bins);

}  // namespace amdahl
