// CPU loops of the sensor operations, single-threaded. Each source is built twice (see CMakeLists.txt).
#pragma once

#include "sensor/ops/sensor_ops.h"

namespace amdahl {

struct CpuFuseKernels {
  void (*fuse)(const FuseProblem& problem);
};
struct CpuVoxelKernels {
  void (*voxelize)(const VoxelizeProblem& problem);
  void (*finish)(const VoxelizeProblem& merged);
  float (*largest_feature)(const VoxelizeProblem& problem);  // largest finite |feature|
};
extern const CpuFuseKernels kCpuFuseBaseline, kCpuFuseAvx2;
extern const CpuVoxelKernels kCpuVoxelsBaseline, kCpuVoxelsAvx2;

}  // namespace amdahl
