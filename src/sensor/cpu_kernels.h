// The CPU's loops of the sensor operations, on one thread. Built twice from one source (see CMakeLists.txt).
#pragma once

#include "sensor/sensor_ops.h"

namespace amdahl {

struct CpuSensorKernels {
  void (*fuse)(const FuseProblem& problem);
  void (*voxelize)(const VoxelizeProblem& problem);
  void (*finish)(const VoxelizeProblem& merged);
  float (*largest_feature)(const VoxelizeProblem& problem);  // of |features|, NaN and infinities left out
};
extern const CpuSensorKernels kCpuSensorBaseline, kCpuSensorAvx2;

}  // namespace amdahl
