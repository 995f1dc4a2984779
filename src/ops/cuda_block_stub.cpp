// Built when no architecture from 9.0 on is compiled for: transformer blocks run operation by operation.
#include "ops/cuda_block_forward.h"
#include "ops/cuda_kernels.h"

namespace amdahl {

size_t block_forward_shared_bytes(const BlockShape&) { return 0; }
void launch_block_forward(const KernelLaunch&, DType, const BlockForward&) {
  throw Error(Cause::internal, "no kernels of whole transformer blocks in this build");
}

}  // namespace amdahl
