// Built when no architecture from 9.0 on is compiled for: transformer blocks run operation by operation.
#include "ops/cuda_block_backward.h"
#include "ops/cuda_block_forward.h"
#include "ops/cuda_block_weights.h"
#include "ops/cuda_kernels.h"

namespace amdahl {
namespace {

[[noreturn]] void no_block_kernels() {
  throw Error(Cause::internal, "no kernels of whole transformer blocks in this build",
              "CMAKE_CUDA_ARCHITECTURES with 90a");
}

}  // namespace

size_t block_forward_shared_bytes(const BlockShape&) { return 0; }
size_t block_backward_shared_bytes(const BlockShape&) { return 0; }
void launch_block_forward(const KernelLaunch&, DType, const BlockForward&) { no_block_kernels(); }
void launch_block_backward(const KernelLaunch&, DType, const BlockBackward&) { no_block_kernels(); }
void launch_weight_gradients(const KernelLaunch&, DType, const WeightGradients&) { no_block_kernels(); }

}  // namespace amdahl
