// Softmax cross-entropy of tokens: one pass finds maximum and sum of a row, and the gradient replaces the logits, of
// which the first are still in registers.
#include <cmath>
#include <cstdint>

#include "ops/cuda_exp2.cuh"
#include "ops/cuda_launch.cuh"
#include "ops/cuda_reduce.cuh"
#include "ops/cuda_typed.cuh"
#include "ops/sequence/cuda_sequence.h"

namespace amdahl {
namespace {

constexpr int kCached = 6;         // groups that a thread keeps
constexpr int kLongThreads = 512;  // of a row that is too long for a warp
constexpr int64_t kMostForWarp = 2048;

/// Some columns of a row: their largest logit, the sum of exp(logit - max), and whether one of them comes before the
/// label in the order of logits (the first of equal ones).
struct RowPart {
  float max = -INFINITY, sum = 0;
  bool beats_label = false;
};

/// Symmetric to the last bit, so that both lanes of a shuffle get the same.
__device__ __forceinline__ RowPart combine(const RowPart& a, const RowPart& b) {
  const float max = fmaxf(a.max, b.max), origin = max == -INFINITY ? 0.0f : max;
  return {max,
          __fadd_rn(__fmul_rn(a.sum, fast_exp2((a.max - origin) * kLog2E)),
                    __fmul_rn(b.sum, fast_exp2((b.max - origin) * kLog2E))),
          a.beats_label || b.beats_label};
}

/// Combines the parts of a row's threads. `turn` alternates between 0 and 1 from call to call: a buffer is written
/// again only after the barrier of the call between.
template <int kRowThreads>
__device__ __forceinline__ RowPart combine_row(RowPart part, int turn) {
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    RowPart other;
    other.max = __shfl_xor_sync(0xffffffffu, part.max, offset);
    other.sum = __shfl_xor_sync(0xffffffffu, part.sum, offset);
    other.beats_label = __shfl_xor_sync(0xffffffffu, part.beats_label ? 1 : 0, offset) != 0;
    part = combine(part, other);
  }
  if constexpr (kRowThreads > kWarp) {
    constexpr int kWarps = kRowThreads / kWarp;
    __shared__ float maxima[2][kWarps], sums[2][kWarps];
    __shared__ bool beats[2][kWarps];
    const int warp = threadIdx.x / kWarp;
    if (threadIdx.x % kWarp == 0)
      maxima[turn][warp] = part.max, sums[turn][warp] = part.sum, beats[turn][warp] = part.beats_label;
    __syncthreads();
    part = {maxima[turn][0], sums[turn][0], beats[turn][0]};
#pragma unroll 1
    for (int i = 1; i < kWarps; ++i) part = combine(part, {maxima[turn][i], sums[turn][i], beats[turn][i]});
  }
  return part;
}

/// The row's label: its column, or -1 if it is no class, and its logit.
struct Label {
  int column;
  float logit;
};

/// Groups of kVec columns; columns past the classes count as -infinity.
template <int kVec>
__device__ __forceinline__ void mask_padding(Floats<kVec>& x, int first, int classes) {
  if (first + kVec <= classes) return;
#pragma unroll
  for (int i = 0; i < kVec; ++i)
    if (first + i >= classes) x.v[i] = -INFINITY;
}

template <int kVec>
__device__ __forceinline__ void add_group(RowPart& part, Floats<kVec> x, int first, int classes, const Label& label) {
  mask_padding(x, first, classes);
  float max = x.v[0];
#pragma unroll
  for (int i = 1; i < kVec; ++i) max = fmaxf(max, x.v[i]);
  if (first + kVec <= label.column) {
    part.beats_label |= max >= label.logit;
  } else if (first > label.column) {
    part.beats_label |= max > label.logit;
  } else {
#pragma unroll
    for (int i = 0; i < kVec; ++i)
      part.beats_label |= first + i < label.column ? x.v[i] >= label.logit : x.v[i] > label.logit;
  }
  if (max > part.max) {
    part.sum *= fast_exp2((part.max - max) * kLog2E);
    part.max = max;
  }
  const float origin = part.max == -INFINITY ? 0.0f : part.max * kLog2E;
#pragma unroll
  for (int i = 0; i < kVec; ++i) part.sum += fast_exp2(fmaf(x.v[i], kLog2E, -origin));
}

/// Makes the compiler keep the elements themselves, not the floats that it converted them to.
template <class T, int kVec>
__device__ __forceinline__ void keep_packed(Elements<T, kVec>& group) {
  if constexpr (Elements<T, kVec>::kBytes % 4 == 0) {
#pragma unroll
    for (int i = 0; i < Elements<T, kVec>::kBytes / 4; ++i)
      asm volatile("" : "+r"(reinterpret_cast<uint32_t*>(group.e)[i]));
  }
}

/// scale * (softmax - onehot) of a group; zero in the padding.
template <int kVec>
__device__ __forceinline__ Floats<kVec> gradient_of(Floats<kVec> x, int first, int classes, const RowPart& row,
                                                    const Label& label, float scale) {
  mask_padding(x, first, classes);
  const float origin = row.max * kLog2E, factor = scale / row.sum;
#pragma unroll
  for (int i = 0; i < kVec; ++i) {
    x.v[i] = fast_exp2(fmaf(x.v[i], kLog2E, -origin)) * factor;
    if (first + i == label.column) x.v[i] -= scale;
  }
  return x;
}

/// kRowThreads threads per row: a warp of a block of kThreads, or the whole block.
template <class T, int kVec, int kRowThreads>
__global__ void __launch_bounds__(kRowThreads == kWarp ? kThreads : kRowThreads, kRowThreads == kWarp ? 4 : 2)
    token_loss_kernel(TokenLoss a, double2* partials, unsigned* counter) {
  constexpr int kBlock = kRowThreads == kWarp ? kThreads : kRowThreads, kRows = kBlock / kRowThreads;
  let_successor_start();
  wait_for_predecessor();
  const int lane = threadIdx.x % kRowThreads, classes = static_cast<int>(a.classes);
  const int groups = (classes + kVec - 1) / kVec, all_groups = static_cast<int>(a.stride / kVec);
  const float scale = a.scale * (a.gradient_scale ? *a.gradient_scale : 1.0f);
  double loss = 0, correct = 0;
  int turn = 0;
  for (int64_t row = static_cast<int64_t>(blockIdx.x) * kRows + threadIdx.x / kRowThreads; row < a.rows;
       row += static_cast<int64_t>(gridDim.x) * kRows, turn ^= 1) {
    T* logits = static_cast<T*>(a.logits) + row * a.stride;
    Elements<T, kVec> cached[kCached];
#pragma unroll
    for (int i = 0; i < kCached; ++i)  // all loads first, so that they overlap
      if (lane + i * kRowThreads < groups) cached[i] = load_elements<kVec>(logits + (lane + i * kRowThreads) * kVec);
    const float raw = a.labels[row];
    const bool valid = raw >= 0 && raw < static_cast<float>(classes);
    Label label{valid ? static_cast<int>(raw) : -1, 0};
    if (valid) label.logit = to_float(logits[label.column]);
    RowPart part;
#pragma unroll
    for (int i = 0; i < kCached; ++i)
      if (lane + i * kRowThreads < groups)
        add_group(part, to_floats(cached[i]), (lane + i * kRowThreads) * kVec, classes, label);
#pragma unroll 2
    for (int group = lane + kCached * kRowThreads; group < groups; group += kRowThreads)
      add_group(part, load_floats<kVec>(logits + group * kVec), group * kVec, classes, label);
    part = combine_row<kRowThreads>(part, turn);
    if (lane == 0) {
      loss += valid ? logf(part.sum) + (part.max - label.logit) : NAN;  // a label that is no class gives NaN
      correct += valid && !part.beats_label ? 1.0 : 0.0;
    }
    if (!a.gradient) continue;
#pragma unroll
    for (int i = 0; i < kCached; ++i) {
      keep_packed(cached[i]);
      const int first = (lane + i * kRowThreads) * kVec;
      if (lane + i * kRowThreads < groups)
        store_floats(logits + first, gradient_of(to_floats(cached[i]), first, classes, part, label, scale));
    }
#pragma unroll 2
    for (int group = lane + kCached * kRowThreads; group < groups; group += kRowThreads)
      store_floats(logits + group * kVec,
                   gradient_of(load_floats<kVec>(logits + group * kVec), group * kVec, classes, part, label, scale));
    for (int group = groups + lane; group < all_groups; group += kRowThreads)
      store_floats(logits + group * kVec, Floats<kVec>{});
  }
  finish_stats<kBlock>(loss, correct, a.scale, a.accumulate, a.stats, partials, counter);
}

template <class T, int kVec>
void launch_loss(const KernelLaunch& launch, const TokenLoss& a) {
  auto* partials = reinterpret_cast<double2*>(launch.scratch.partials);
  if (a.classes <= kMostForWarp) {
    const unsigned blocks = std::min(num_blocks(a.rows, kThreads / kWarp), static_cast<unsigned>(4 * launch.num_sms));
    return launch_early(launch, blocks, kThreads, token_loss_kernel<T, kVec, kWarp>, "token_loss_kernel", a, partials,
                        launch.scratch.counters);
  }
  const unsigned blocks = std::min(num_blocks(a.rows, 1), static_cast<unsigned>(2 * launch.num_sms));
  launch_early(launch, blocks, kLongThreads, token_loss_kernel<T, kVec, kLongThreads>, "token_loss_kernel", a, partials,
               launch.scratch.counters);
}

}  // namespace

void launch_token_loss(const KernelLaunch& launch, const TokenLoss& a) {
  if (a.stride < a.classes || a.stride > INT32_MAX)
    throw Error(Cause::internal, "token_loss: rows of logits are as long as the classes, and less than 2^31");
  with_element_type(a.type, [&](auto element) {
    using T = typename decltype(element)::type;
    constexpr int kVec = 16 / static_cast<int>(sizeof(T));
    a.stride % kVec == 0 && aligned16(a.logits) ? launch_loss<T, kVec>(launch, a) : launch_loss<T, 1>(launch, a);
  });
}

}  // namespace amdahl
