// From the public API's tensors to problems: every argument is looked at before anything is launched.
#pragma once

#include <string>
#include <vector>

#include "sensor/sensor_ops.h"

namespace amdahl {

/// Error{usage} naming the argument, what it is and what it must be. Memory on `device` (-1: host). Stream i is called
/// names[i].
FuseProblem check_fuse(const std::vector<SensorStream>& streams, const std::vector<std::string>& names,
                       const ConstTensor& target_times, const Tensor& output, const FuseOptions& options, int device);
/// Points, features and output of a cloud; leaves the memory of counts, sums and scratch to the caller.
VoxelizeProblem check_voxelize(const ConstTensor& points, const ConstTensor& features, const VoxelGrid& grid,
                               const Tensor& output, const VoxelizeOptions& options, int device);
/// Error{usage} for sizes that are no grid.
void check_grid(const VoxelGrid& grid);
/// Error{non_finite} or Error{data_corrupt} with batch and position when `fault` found something in times [B, S].
void require_good_times(const TimesFault& fault, const std::string& name, int64_t length);

}  // namespace amdahl
