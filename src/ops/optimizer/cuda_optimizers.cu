// Adam and SGD over flat parameter ranges, one pass over memory each, and what they read: learning rate, clip scale.
#include "ops/cuda_launch.cuh"
#include "ops/cuda_reduce.cuh"
#include "ops/optimizer/cuda_adam.cuh"

namespace amdahl {
namespace {

// A range is split into `head` parameters up to a 16-byte boundary, `num_vectors` groups of four, and a tail.
struct Range {
  int64_t head, num_vectors, n;
};

__device__ __forceinline__ bool skips(const StepFactors& factors) { return factors.skip && *factors.skip != 0.0f; }

__global__ void __launch_bounds__(kThreads, 5)
    adam_kernel(float* __restrict__ params, const float* __restrict__ grads, float* __restrict__ m,
                float* __restrict__ v, Range range, AdamParameters p) {
  let_successor_start();
  wait_for_predecessor();
  if (skips(p.factors)) return;
  const AdamRule rule(p);
  uint32_t changes[3] = {};
  const int64_t first = thread_index(), stride = thread_count();
#pragma unroll 1
  for (int64_t i = first; i < range.num_vectors; i += stride) {
    float4* wp = reinterpret_cast<float4*>(params + range.head) + i;
    float4* mp = reinterpret_cast<float4*>(m + range.head) + i;
    float4* vp = reinterpret_cast<float4*>(v + range.head) + i;
    const float4 g4 = *(reinterpret_cast<const float4*>(grads + range.head) + i);
    float4 w4 = *wp, m4 = __ldcs(mp), v4 = __ldcs(vp);
    step_and_count(rule, w4, g4, m4, v4, rule.keep(p, range.head + 4 * i), changes);
    *wp = w4;
    __stcs(mp, m4), __stcs(vp, v4);
  }
  const int64_t tail = range.head + 4 * range.num_vectors;
  for (int64_t i = first; i < range.head + (range.n - tail); i += stride) {
    const int64_t at = i < range.head ? i : tail + (i - range.head);
    step_and_count(rule, params[at], grads[at], m[at], v[at], rule.keep(p, at), changes);
  }
  add_to_sums(p.changes, changes);
}

__global__ void __launch_bounds__(kThreads, 6)
    sgd_kernel(float* __restrict__ params, const float* __restrict__ grads, float* __restrict__ velocity, Range range,
               float base_lr, float momentum, StepFactors factors, uint32_t* sums) {
  let_successor_start();
  wait_for_predecessor();
  if (skips(factors)) return;
  const float lr = factors.rate ? *factors.rate : base_lr;
  const float scale = factors.grad_scale ? *factors.grad_scale : 1.0f;
  uint32_t changes[2] = {};
  const auto rule = [=, &changes](float& w, float g, float& u) {
    changes[0] -= bits_of(w), changes[1] -= bits_of(u);
    u = momentum * u + scale * g;
    w -= lr * u;
    changes[0] += bits_of(w), changes[1] += bits_of(u);
  };
  const int64_t first = thread_index(), stride = thread_count();
#pragma unroll 1
  for (int64_t i = first; i < range.num_vectors; i += stride) {
    float4* wp = reinterpret_cast<float4*>(params + range.head) + i;
    float4* up = reinterpret_cast<float4*>(velocity + range.head) + i;
    const float4 g4 = *(reinterpret_cast<const float4*>(grads + range.head) + i);
    float4 w4 = *wp, u4 = *up;
    rule(w4.x, g4.x, u4.x);
    rule(w4.y, g4.y, u4.y);
    rule(w4.z, g4.z, u4.z);
    rule(w4.w, g4.w, u4.w);
    *wp = w4, *up = u4;
  }
  const int64_t tail = range.head + 4 * range.num_vectors;
  for (int64_t i = first; i < range.head + (range.n - tail); i += stride) {
    const int64_t at = i < range.head ? i : tail + (i - range.head);
    rule(params[at], grads[at], velocity[at]);
  }
  add_to_sums(sums, changes);
}

__global__ void __launch_bounds__(kThreads) sum_bits_kernel(const float* values, int64_t n, uint32_t* sum) {
  uint32_t bits[1] = {};
  for (int64_t i = thread_index(); i < n; i += thread_count()) bits[0] += bits_of(values[i]);
  add_to_sums(sum, bits);
}

__global__ void set_rate_kernel(SetRate a) {
  let_successor_start();
  wait_for_predecessor();
  *a.rate = rate_of_step(a.plan, a.base, *a.step);
}

__global__ void clip_scale_kernel(ClipScale a) {
  let_successor_start();
  wait_for_predecessor();
  *a.scale = a.loss_scale ? advance_loss_scale(*a.loss_scale, *a.sum, a.limit, kClipEpsilon)
                          : fminf(1.0f, a.limit / (sqrtf(*a.sum) + kClipEpsilon));
}

constexpr int64_t kSquaresPerThread = 16;
constexpr unsigned kMostSquareBlocks = 1024;  // independent of the device, so that the order of the sum is

__global__ void __launch_bounds__(kThreads)
    sum_of_squares_kernel(SumOfSquares a, Range range, double* partials, unsigned* counter) {
  let_successor_start();
  wait_for_predecessor();
  const auto square = [](float value) { return static_cast<double>(value) * static_cast<double>(value); };
  const int64_t first = thread_index(), stride = thread_count();
  double sum = 0;
  for (int64_t i = first; i < range.num_vectors; i += stride) {
    const float4 value = *(reinterpret_cast<const float4*>(a.values + range.head) + i);
    sum += square(value.x) + square(value.y) + square(value.z) + square(value.w);
  }
  const int64_t tail = range.head + 4 * range.num_vectors;
  for (int64_t i = first; i < range.head + (range.n - tail); i += stride)
    sum += square(a.values[i < range.head ? i : tail + (i - range.head)]);
  sum = block_sum<kThreads>(sum);
  if (gridDim.x > 1) {
    if (threadIdx.x == 0) partials[blockIdx.x] = sum;
    if (!arrives_last(counter, gridDim.x)) return;
    sum = 0;
    for (unsigned i = threadIdx.x; i < gridDim.x; i += kThreads) sum += __ldcg(&partials[i]);
    sum = block_sum<kThreads>(sum);
  }
  if (threadIdx.x == 0) *a.sum = static_cast<float>(sum) + (a.accumulate ? *a.sum : 0.0f);
}

// A range may start at any float, but normally with the same misalignment in every buffer; if not, all parameters are
// processed one at a time.
Range split_range(int64_t n, std::initializer_list<const void*> pointers) {
  const uintptr_t offset = reinterpret_cast<uintptr_t>(*pointers.begin()) % 16;
  for (const void* pointer : pointers)
    if (reinterpret_cast<uintptr_t>(pointer) % 16 != offset) return {n, 0, n};
  const int64_t head = std::min<int64_t>(n, offset == 0 ? 0 : static_cast<int64_t>((16 - offset) / sizeof(float)));
  return {head, (n - head) / 4, n};
}

int64_t work_items(const Range& range) { return std::max(range.num_vectors, range.n - 4 * range.num_vectors); }

}  // namespace

void launch_adam(const KernelLaunch& launch, const AdamStep& a) {
  if (a.n == 0) return;
  const Range range = split_range(a.n, {a.params, a.grads, a.m, a.v});
  launch_early(launch, streaming_blocks(launch, work_items(range), 5), kThreads, adam_kernel, "adam_kernel", a.params,
               a.grads, a.m, a.v, range, adam_parameters(a));
}

void launch_sgd(const KernelLaunch& launch, const SgdStep& a) {
  if (a.n == 0) return;
  const Range range = split_range(a.n, {a.params, a.grads, a.velocity});
  launch_early(launch, streaming_blocks(launch, work_items(range), 6), kThreads, sgd_kernel, "sgd_kernel", a.params,
               a.grads, a.velocity, range, a.lr, a.momentum, a.factors, a.changes.sums);
}

void launch_sum_bits(const KernelLaunch& launch, const float* values, int64_t n, uint32_t* sum) {
  if (n == 0) return;
  sum_bits_kernel<<<streaming_blocks(launch, n), kThreads, 0, launch.stream>>>(values, n, sum);
  check_launch(launch, "sum_bits_kernel");
}

void launch_set_rate(const KernelLaunch& launch, const SetRate& a) {
  launch_early(launch, 1, 1, set_rate_kernel, "set_rate_kernel", a);
}

void launch_clip_scale(const KernelLaunch& launch, const ClipScale& a) {
  launch_early(launch, 1, 1, clip_scale_kernel, "clip_scale_kernel", a);
}

void launch_sum_of_squares(const KernelLaunch& launch, const SumOfSquares& a) {
  const Range range = split_range(a.n, {a.values});
  const unsigned blocks = std::min(num_blocks(work_items(range), kThreads * kSquaresPerThread / 4), kMostSquareBlocks);
  launch_early(launch, blocks, kThreads, sum_of_squares_kernel, "sum_of_squares_kernel", a, range,
               reinterpret_cast<double*>(launch.scratch.partials), launch.scratch.counters);
}

void preload_optimizers(int device_index) {
  preload(device_index, adam_kernel, sgd_kernel, sum_bits_kernel, set_rate_kernel, clip_scale_kernel,
          sum_of_squares_kernel);
}

}  // namespace amdahl
