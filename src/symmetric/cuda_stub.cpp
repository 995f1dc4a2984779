// Replaces cuda_p2p_one_sided.cu in a build without CUDA.
#include "symmetric/one_sided.h"

namespace amdahl {

std::unique_ptr<OneSided> make_cuda_p2p_one_sided(Device&, const SymmetricMemory&) {
  throw Error(Cause::environment_missing, "built without CUDA",
              "install the CUDA toolkit (nvcc) and build with -DAMDAHL_CUDA=ON");
}

}  // namespace amdahl
