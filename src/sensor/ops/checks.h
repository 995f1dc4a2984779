// Converts tensors of the public API into problems and checks every argument before anything is launched.
#pragma once

#include <string>
#include <vector>

#include "sensor/ops/sensor_ops.h"

namespace amdahl {

/// Throws Error{usage} that names the argument, its value and what is allowed. Memory must be on `device` (-1: host).
/// names[i] is the name of stream i in messages.
FuseProblem check_fuse(const std::vector<SensorStream>& streams, const std::vector<std::string>& names,
                       const ConstTensor& target_times, const Tensor& output, const FuseOptions& options, int device);
/// Sets points, features and output of a cloud; the caller sets counts, sums and scratch.
VoxelizeProblem check_voxelize(const ConstTensor& points, const ConstTensor& features, const VoxelGrid& grid,
                               const Tensor& output, const VoxelizeOptions& options, int device);
/// Throws Error{usage} for an invalid grid.
void check_grid(const VoxelGrid& grid);
/// Throws Error{non_finite} or Error{data_corrupt} with batch and position if `fault` has found an invalid time in
/// times [B, S].
void require_good_times(const TimesFault& fault, const std::string& name, int64_t length);

}  // namespace amdahl
