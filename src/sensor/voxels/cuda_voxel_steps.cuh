// The second steps of a voxelization on the GPU, by what a voxel holds, and the one that needs no first step.
#pragma once

#include "sensor/voxels/cuda_voxelize.cuh"

namespace amdahl {

void launch_voxel_counts(const SensorLaunch& launch, const VoxelizeProblem& problem, const sensor_cuda::BinArgs& bins);
/// Counts of grids whose bins would be too many if each voxel had a word.
void launch_voxel_halves(const SensorLaunch& launch, const VoxelizeProblem& problem, const sensor_cuda::BinArgs& bins);
/// Means and maxima; of few points with their features in shared memory or by groups, and then of the bins that these
/// leave.
void launch_voxel_values(const SensorLaunch& launch, const VoxelizeProblem& problem, const sensor_cuda::BinArgs& bins);
void launch_voxel_groups(const SensorLaunch& launch, const VoxelizeProblem& problem, const sensor_cuda::BinArgs& bins);
/// Does nothing and returns false where features of a bin would not fit.
bool launch_voxel_fetched(const SensorLaunch& launch, const VoxelizeProblem& problem, const sensor_cuda::BinArgs& bins);

/// Whether points are few enough for the plain way without values: clearing the grid and an atomic each, of 100,000
/// points in 128^3 voxels 4.9 us where the sorted way takes 6.4 (H200).
bool goes_directly(const VoxelizeProblem& problem);
void launch_voxel_direct(const SensorLaunch& launch, const VoxelizeProblem& problem);

}  // namespace amdahl
