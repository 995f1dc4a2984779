// A device that is made slower on purpose, to have heterogeneous devices where all are homogeneous.
#pragma once

#include <memory>

#include "sensor/sensor_ops.h"

namespace amdahl {

/// Operations of `device` at about `fraction` (above 0, at most 1) of its speed: a virtual device does each fusion and
/// voxelization 1 / fraction times, the part of a repetition with that part of the items. A GPU is made with a part of
/// its multiprocessors (make_cuda_devices) and its operations stay as they are. Results are those of `ops`.
std::unique_ptr<SensorOps> limit_speed(const Device& device, std::unique_ptr<SensorOps> ops, double fraction);

}  // namespace amdahl
