#include "transfer/transfer.h"

namespace amdahl {

std::unique_ptr<Transfer> make_cuda_transfer(Device&) {
  throw Error(Cause::environment_missing, "this build has no CUDA", "build with nvcc on PATH");
}

}  // namespace amdahl
