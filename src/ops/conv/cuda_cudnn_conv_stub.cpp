// Built without the headers of cuDNN or of its C++ interface.
#include "ops/conv/cuda_cudnn_conv.h"

namespace amdahl {

std::unique_ptr<CudnnConvolutions> CudnnConvolutions::open(CudaContext&, Availability& why) {
  why = {false, "this build has no cuDNN", "scripts/install_deps.sh, then configure again with -DAMDAHL_WITH_CUDNN=ON"};
  return nullptr;
}

}  // namespace amdahl
