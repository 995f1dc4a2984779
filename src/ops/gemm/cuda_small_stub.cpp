// Built when no target architecture supports the small-batch kernels (they need clusters, 9.0): preload_small returns
// false, and no other function here is called.
#include "ops/gemm/cuda_small.h"

namespace amdahl {
namespace {

[[noreturn]] void missing() {
  throw Error(Cause::internal, "the kernels for few rows are not in this build", "CMAKE_CUDA_ARCHITECTURES with 90a");
}

}  // namespace

bool preload_small(int) { return false; }
bool small_dense_applies(MathMode, int64_t, int64_t, int64_t) { return false; }
bool small_update_applies(MathMode, int, int64_t, int64_t, int64_t) { return false; }
void launch_small_forward(const KernelLaunch&, MathMode, const DenseForward&) { missing(); }
void launch_small_backward(const KernelLaunch&, MathMode, const DenseBackwardWeight*, const DenseBackwardInput*) {
  missing();
}
void launch_small_update(const KernelLaunch&, MathMode, const DenseBackwardWeight&, const AdamStep&) { missing(); }

}  // namespace amdahl
