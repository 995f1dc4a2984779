#include "ops/cuda_block_backward.cuh"

#include "ops/cuda_small_launch.cuh"
#include "ops/cuda_tuner.h"

namespace amdahl {
namespace {

template <class S>
__global__ void __launch_bounds__(S::kMostThreads, 1) block_backward_kernel(const __grid_constant__ BlockBackward a) {
  extern __shared__ uint4 block_backward_memory[];
  let_successor_start();
  wait_for_predecessor();
  block_backward_body<S>(a, reinterpret_cast<std::byte*>(block_backward_memory));
}

template <class Use>
void with_backward_shape(DType type, int64_t heads, const Use& use) {
  with_element_type(type, [&](auto element) {
    using Element = typename decltype(element)::type;
    if (heads == 1) return use(BackwardShape<Element, 1>{});
    if (heads == 2) return use(BackwardShape<Element, 2>{});
    if (heads == 3) return use(BackwardShape<Element, 3>{});
    use(BackwardShape<Element, 4>{});
  });
}

}  // namespace

size_t block_backward_shared_bytes(const BlockShape& s) {
  constexpr int64_t kMostHeads = 4, kHead = 64, kMostSteps = BackwardShape<float, 1>::kMostRows;
  if (s.heads < 1 || s.heads > kMostHeads || s.steps < 1 || s.steps > kMostSteps) return 0;
  if (s.width != s.heads * kHead || s.hidden != 4 * s.width) return 0;
  size_t bytes = 0;
  with_backward_shape(s.type, s.heads, [&](auto shape) {
    bytes = static_cast<size_t>(shape.shared_bytes(shape.padded(static_cast<int>(s.steps))));
  });
  return bytes;
}

void launch_block_backward(const KernelLaunch& launch, DType type, const BlockBackward& a) {
  if (a.sequences == 0 || a.steps == 0) return;
  with_backward_shape(type, a.heads, [&](auto shape) {
    using S = decltype(shape);
    const int rows = S::padded(a.steps), bytes = S::shared_bytes(rows);
    auto* const kernel = block_backward_kernel<S>;
    {
      const RelaxedCapture relaxed;  // loads the kernel's code
      // Not `bytes`: fewer steps would lower the limit of a launch that is being captured.
      const int most = cuda_attribute(launch.device_index, cudaDevAttrMaxSharedMemoryPerBlockOptin);
      cuda_check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, most), launch.device_index,
                 "cudaFuncSetAttribute");
    }
    launch_clusters(launch, kernel, a, int64_t{a.sequences} * S::kHeads, S::kHeads, static_cast<size_t>(bytes),
                    "block_backward_kernel", rows * S::kColumnWarps);
  });
}

}  // namespace amdahl
