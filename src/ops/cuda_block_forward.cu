// Launches of the forward kernel of small transformer blocks.
#include "ops/cuda_block_forward.h"

#include "ops/cuda_block_forward.cuh"
#include "ops/cuda_small_launch.cuh"
#include "ops/cuda_tuner.h"

namespace amdahl {
namespace {

constexpr int64_t kMostHeads = 4, kMostSteps = 128;

template <class S, class Math>
__global__ void __launch_bounds__(kBlockThreads, 1) block_forward_kernel(BlockForward a) {
  extern __shared__ uint4 block_memory[];
  let_successor_start();
  wait_for_predecessor();
  block_forward_body<S, Math>(a, reinterpret_cast<std::byte*>(block_memory));
}

template <class T, class Math, int kHeads, class Use>
void with_rows(int64_t steps, const Use& use) {
  if (steps <= 96) return use(BlockForwardSizes<T, kHeads, 6>{}, Math{});
  use(BlockForwardSizes<T, kHeads, 8>{}, Math{});
}

template <class T, class Math, class Use>
void with_heads(int64_t heads, int64_t steps, const Use& use) {
  if (heads == 1) return with_rows<T, Math, 1>(steps, use);
  if (heads == 2) return with_rows<T, Math, 2>(steps, use);
  if (heads == 3) return with_rows<T, Math, 3>(steps, use);
  with_rows<T, Math, 4>(steps, use);
}

/// Calls use(BlockForwardSizes<...>{}, Math{}) for the kernel that computes the shape.
template <class Use>
void with_sizes(DType type, int64_t heads, int64_t steps, const Use& use) {
  if (type == DType::bf16) return with_heads<__nv_bfloat16, HalfMath<__nv_bfloat16>>(heads, steps, use);
  if (type == DType::f16) return with_heads<__half, HalfMath<__half>>(heads, steps, use);
  with_heads<float, FloatMath<false>>(heads, steps, use);
}

}  // namespace

size_t block_forward_shared_bytes(const BlockShape& s) {
  if (s.heads < 1 || s.heads > kMostHeads || s.steps < 1 || s.steps > kMostSteps) return 0;
  if (s.width != s.heads * kBlockHeadWidth || s.hidden != 4 * s.width) return 0;
  if (s.type != DType::bf16 && s.type != DType::f16 && s.type != DType::f32) return 0;
  size_t bytes = 0;
  with_sizes(s.type, s.heads, s.steps, [&](auto sizes, auto) { bytes = decltype(sizes)::kSharedBytes; });
  return bytes;
}

void launch_block_forward(const KernelLaunch& launch, DType type, const BlockForward& a) {
  if (a.sequences == 0) return;
  with_sizes(type, a.heads, a.steps, [&](auto sizes, auto math) {
    using S = decltype(sizes);
    auto* const kernel = block_forward_kernel<S, decltype(math)>;
    {
      const RelaxedCapture relaxed;  // loads the kernel's code
      cuda_check(
          cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(S::kSharedBytes)),
          launch.device_index, "cudaFuncSetAttribute");
    }
    launch_clusters(launch, kernel, a, static_cast<int64_t>(a.sequences) * S::kHeads, S::kHeads, S::kSharedBytes,
                    "block_forward_kernel", kBlockThreads);
  });
}

}  // namespace amdahl
