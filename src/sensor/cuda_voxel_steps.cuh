// The second steps of a voxelization on the GPU, by what a voxel holds.
#pragma once

#include "sensor/cuda_voxelize.cuh"

namespace amdahl {

void launch_voxel_counts(const SensorLaunch& launch, const VoxelizeProblem& problem, const sensor_cuda::BinArgs& bins);
void launch_voxel_values(const SensorLaunch& launch, const VoxelizeProblem& problem, const sensor_cuda::BinArgs& bins);

}  // namespace amdahl
