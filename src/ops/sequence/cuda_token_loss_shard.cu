// Softmax cross-entropy of tokens whose classes are divided among ranks: each reduces its classes of a row to four
// floats, and from the four of every rank computes the loss and the gradient of its logits. A block per row.
#include <cfloat>
#include <cmath>
#include <cstdint>

#include "ops/cuda_launch.cuh"
#include "ops/cuda_typed.cuh"
#include "ops/sequence/cuda_sequence.h"

namespace amdahl {
namespace {

constexpr int kShardThreads = 256;

/// The largest value and its first index.
struct Largest {
  float value;
  int index;
};

__device__ __forceinline__ Largest larger_of(const Largest& a, const Largest& b) {
  if (a.value != b.value) return a.value > b.value ? a : b;
  return a.index < b.index ? a : b;
}

/// Combines a value of each thread of the block in a fixed order; every thread gets the result.
template <class T, class Combine>
__device__ T combine_block(T mine, T* shared, const Combine& combine) {
  shared[threadIdx.x] = mine;
  __syncthreads();
  for (int half = kShardThreads / 2; half > 0; half /= 2) {
    if (static_cast<int>(threadIdx.x) < half)
      shared[threadIdx.x] = combine(shared[threadIdx.x], shared[threadIdx.x + half]);
    __syncthreads();
  }
  const T result = shared[0];
  __syncthreads();
  return result;
}

template <class T>
__global__ void __launch_bounds__(kShardThreads) loss_parts_kernel(TokenLossShard a) {
  __shared__ Largest tops[kShardThreads];
  __shared__ float sums[kShardThreads];
  let_successor_start();
  wait_for_predecessor();
  const int64_t r = blockIdx.x;
  const T* row = static_cast<const T*>(a.logits) + r * a.stride;
  Largest top{-INFINITY, INT32_MAX};
  for (int64_t i = threadIdx.x; i < a.classes; i += kShardThreads)
    top = larger_of(top, {load_floats<1>(row + i).v[0], static_cast<int>(i)});
  top = combine_block(top, tops, larger_of);
  float sum = 0;
  for (int64_t i = threadIdx.x; i < a.classes; i += kShardThreads)
    sum += expf(load_floats<1>(row + i).v[0] - top.value);
  sum = combine_block(sum, sums, [](float x, float y) { return x + y; });
  if (threadIdx.x != 0) return;
  float* part = a.parts + r * kShardLossFloats;
  const int64_t label = static_cast<int64_t>(a.labels[r]) - a.first;
  part[0] = top.value;
  part[1] = static_cast<float>(a.first + top.index);
  part[2] = sum;
  part[3] = label >= 0 && label < a.classes ? load_floats<1>(row + label).v[0] : 0.0f;
}

/// Largest logit, sum of exponentials and label's logit of a row over all ranks.
struct WholeRow {
  float top, sum, of_label, best;
};

__device__ __forceinline__ WholeRow whole_row(const TokenLossShard& a, int64_t r) {
  WholeRow row{-INFINITY, 0, 0, -1};
  for (int s = 0; s < a.shards; ++s) {
    const float* part = a.parts + (s * a.rows + r) * kShardLossFloats;
    if (part[0] > row.top) row.top = part[0], row.best = part[1];
  }
  for (int s = 0; s < a.shards; ++s) {
    const float* part = a.parts + (s * a.rows + r) * kShardLossFloats;
    row.sum += part[2] * expf(part[0] - row.top);
    row.of_label += part[3];
  }
  return row;
}

template <class T>
__global__ void __launch_bounds__(kShardThreads) loss_gradient_kernel(TokenLossShard a) {
  let_successor_start();
  wait_for_predecessor();
  const int64_t r = blockIdx.x;
  const WholeRow whole = whole_row(a, r);
  const int64_t label = static_cast<int64_t>(a.labels[r]) - a.first;
  T* row = static_cast<T*>(a.logits) + r * a.stride;
  for (int64_t i = threadIdx.x; i < a.stride; i += kShardThreads) {
    float gradient = 0;
    if (i < a.classes) gradient = expf(load_floats<1>(row + i).v[0] - whole.top) / whole.sum * a.scale;
    if (i == label && i < a.classes) gradient -= a.scale;
    Floats<1> value;
    value.v[0] = gradient;
    store_floats(row + i, value);
  }
}

/// One block sums the loss of all rows, in a fixed order.
__global__ void __launch_bounds__(kShardThreads) loss_sum_kernel(TokenLossShard a) {
  __shared__ double losses[kShardThreads];
  __shared__ float counts[kShardThreads];
  let_successor_start();
  wait_for_predecessor();
  double loss = 0;
  float correct = 0;
  for (int64_t r = threadIdx.x; r < a.rows; r += kShardThreads) {
    const WholeRow whole = whole_row(a, r);
    loss += log(static_cast<double>(whole.sum)) + static_cast<double>(whole.top) - static_cast<double>(whole.of_label);
    correct += whole.best == a.labels[r] ? 1.0f : 0.0f;
  }
  loss = combine_block(loss, losses, [](double x, double y) { return x + y; });
  correct = combine_block(correct, counts, [](float x, float y) { return x + y; });
  if (threadIdx.x != 0) return;
  const float scaled = static_cast<float>(loss * static_cast<double>(a.scale));
  a.stats[0] = a.accumulate ? a.stats[0] + scaled : scaled;
  a.stats[1] = (a.accumulate ? a.stats[1] : 0.0f) + correct;
}

}  // namespace

void launch_token_loss_parts(const KernelLaunch& launch, const TokenLossShard& a) {
  if (a.rows == 0) return;
  with_element_type(a.type, [&](auto element) {
    using T = typename decltype(element)::type;
    launch_early(launch, static_cast<unsigned>(a.rows), kShardThreads, loss_parts_kernel<T>, "loss_parts_kernel", a);
  });
}

void launch_token_loss_of_parts(const KernelLaunch& launch, const TokenLossShard& a) {
  if (a.rows == 0) return;
  launch_early(launch, 1, kShardThreads, loss_sum_kernel, "loss_sum_kernel", a);
  with_element_type(a.type, [&](auto element) {
    using T = typename decltype(element)::type;
    launch_early(launch, static_cast<unsigned>(a.rows), kShardThreads, loss_gradient_kernel<T>, "loss_gradient_kernel",
                 a);
  });
}

}  // namespace amdahl
