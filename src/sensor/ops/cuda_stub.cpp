// Stands in for the CUDA sensor operations in a build without CUDA.
#include "sensor/ops/sensor_ops.h"

namespace amdahl {

std::unique_ptr<SensorOps> make_cuda_sensor_ops(Device&) {
  throw Error(Cause::environment_missing, "this build has no CUDA backend", "configure with -DAMDAHL_CUDA=ON");
}

}  // namespace amdahl
