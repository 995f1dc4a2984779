// Stands in for the CUDA ops in a build without the CUDA toolkit.
#include "ops/ops.h"

namespace amdahl {

std::unique_ptr<Ops> make_cuda_ops(Device&, const OpsOptions&) {
  throw Error(Cause::environment_missing, "this build has no CUDA backend",
              "install the CUDA toolkit and configure with -DAMDAHL_CUDA=ON");
}

}  // namespace amdahl
