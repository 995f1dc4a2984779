// Operations of an artificially limited device, which turns homogeneous devices into heterogeneous ones.
#pragma once

#include <memory>

#include "sensor/ops/sensor_ops.h"

namespace amdahl {

/// Operations at about `fraction` (in (0, 1]) of the speed of `device`. On a virtual device each fusion and
/// voxelization is executed 1 / fraction times; the fractional repetition processes that fraction of the items. The
/// operations of a GPU are unchanged, because the device itself has fewer SMs (make_cuda_devices). Results are those of
/// `ops`.
std::unique_ptr<SensorOps> limit_speed(const Device& device, std::unique_ptr<SensorOps> ops, double fraction);

}  // namespace amdahl
