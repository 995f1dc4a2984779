// Queries and keys before attention: normalisation of each head, and rotation by the step. A warp has one head at a
// time; a lane has the pairs (i, i + width / 2) with i = lane, lane + 32, ...
#include "ops/attention/cuda_attention.h"
#include "ops/cuda_launch.cuh"
#include "ops/cuda_reduce.cuh"
#include "ops/cuda_typed.cuh"
#include "ops/gemm/cuda_column_finish.h"

namespace amdahl {
namespace {

constexpr int kMostPairs = kMostHeadWidth / 2 / kWarp, kWarps = kThreads / kWarp;

/// The features of a head that a lane has: pair j is (first[j], second[j]), zeros past the width.
struct LanePairs {
  float first[kMostPairs], second[kMostPairs];
};

template <class Use>
__device__ __forceinline__ void for_each_pair(int width, const Use& use) {
  const int lane = threadIdx.x % kWarp, half = width / 2;
#pragma unroll
  for (int j = 0; j < kMostPairs; ++j)
    if (lane + j * kWarp < half) use(j, lane + j * kWarp, lane + j * kWarp + half);
}
template <class T>
__device__ __forceinline__ LanePairs load_pairs(const T* from, int width) {
  LanePairs pairs{};
  for_each_pair(width,
                [&](int j, int a, int b) { pairs.first[j] = to_float(from[a]), pairs.second[j] = to_float(from[b]); });
  return pairs;
}
template <class T>
__device__ __forceinline__ void store_pairs(T* to, const LanePairs& pairs, int width) {
  for_each_pair(width, [&](int j, int a, int b) {
    to[a] = to_element<T>(pairs.first[j]);
    to[b] = to_element<T>(pairs.second[j]);
  });
}
__device__ __forceinline__ float dot_of(const LanePairs& x, const LanePairs& y) {
  float sum = 0;
#pragma unroll
  for (int j = 0; j < kMostPairs; ++j) sum += x.first[j] * y.first[j] + x.second[j] * y.second[j];
  return warp_sum(sum);
}
/// kBack: by the negative angles.
template <bool kBack>
__device__ __forceinline__ void turn(LanePairs& x, const float* angles, int width) {
  for_each_pair(width, [&](int j, int a, int b) {
    const float cosine = angles[a], sine = kBack ? -angles[b] : angles[b], first = x.first[j], second = x.second[j];
    x.first[j] = first * cosine - second * sine;
    x.second[j] = second * cosine + first * sine;
  });
}

/// Where a head of q or k is.
struct HeadPlace {
  int width, turned;  // features; heads of q and k of a step
  int64_t row, steps, count;
  __device__ __forceinline__ int64_t offset(int64_t head) const { return head / turned * row + head % turned * width; }
  __device__ __forceinline__ const float* angles(const float* rotation, int64_t head) const {
    return rotation + head / turned % steps * width;
  }
};
HeadPlace place_of_heads(const AttentionShape& s) {
  const int64_t turned = s.heads + s.key_heads();
  return {static_cast<int>(s.head_width), static_cast<int>(turned), s.packed_width(), s.steps,
          s.batch * s.steps * turned};
}

__device__ __forceinline__ float inverse_root(const LanePairs& x, int width, float epsilon) {
  return 1.0f / sqrtf(dot_of(x, x) / static_cast<float>(width) + epsilon);
}

template <class T>
__global__ void __launch_bounds__(kThreads) heads_kernel(HeadPlace p, HeadsForward a) {
  let_successor_start();
  wait_for_predecessor();
  const int64_t step = static_cast<int64_t>(gridDim.x) * kWarps;
  for (int64_t head = thread_index() / kWarp; head < p.count; head += step) {
    T* const at = static_cast<T*>(a.qkv) + p.offset(head);
    LanePairs x = load_pairs(at, p.width);
    if (a.kept) {
      store_pairs(static_cast<T*>(a.kept) + head * p.width, x, p.width);
      const LanePairs weight = load_pairs(head % p.turned < a.shape.heads ? a.q_weight : a.k_weight, p.width);
      const float rstd = inverse_root(x, p.width, a.epsilon);
#pragma unroll
      for (int j = 0; j < kMostPairs; ++j) {
        x.first[j] *= rstd * weight.first[j];
        x.second[j] *= rstd * weight.second[j];
      }
    }
    if (a.rotation) turn<false>(x, p.angles(a.rotation, head), p.width);
    store_pairs(at, x, p.width);
  }
}

/// partials is [2, blocks, width]: sums for the weights of q, of k.
template <class T>
__global__ void __launch_bounds__(kThreads) heads_gradient_kernel(HeadPlace p, HeadsBackward a, float* partials) {
  __shared__ float sums[2][kWarps][kMostHeadWidth];
  let_successor_start();
  wait_for_predecessor();
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int64_t step = static_cast<int64_t>(gridDim.x) * kWarps;
  LanePairs totals[2] = {};
  for (int64_t head = thread_index() / kWarp; head < p.count; head += step) {
    T* const at = static_cast<T*>(a.d_qkv) + p.offset(head);
    LanePairs d = load_pairs(at, p.width);
    if (a.rotation) turn<true>(d, p.angles(a.rotation, head), p.width);
    if (a.kept) {
      const bool query = head % p.turned < a.shape.heads;
      LanePairs x = load_pairs(static_cast<const T*>(a.kept) + head * p.width, p.width), products;
      const LanePairs weight = load_pairs(query ? a.q_weight : a.k_weight, p.width);
      const float rstd = inverse_root(x, p.width, a.epsilon);
#pragma unroll
      for (int j = 0; j < kMostPairs; ++j) {
        x.first[j] *= rstd, x.second[j] *= rstd;
        products.first[j] = d.first[j] * x.first[j], products.second[j] = d.second[j] * x.second[j];
        totals[0].first[j] += query ? products.first[j] : 0.0f,
            totals[0].second[j] += query ? products.second[j] : 0.0f;
        totals[1].first[j] += query ? 0.0f : products.first[j],
            totals[1].second[j] += query ? 0.0f : products.second[j];
      }
      const float mean = dot_of(products, weight) / static_cast<float>(p.width);
#pragma unroll
      for (int j = 0; j < kMostPairs; ++j) {
        d.first[j] = rstd * (d.first[j] * weight.first[j] - x.first[j] * mean);
        d.second[j] = rstd * (d.second[j] * weight.second[j] - x.second[j] * mean);
      }
    }
    store_pairs(at, d, p.width);
  }
  if (!a.kept) return;
  for (int which = 0; which < 2; ++which) store_pairs(sums[which][warp], totals[which], p.width);
  __syncthreads();
  for (int i = threadIdx.x; i < 2 * p.width; i += kThreads) {
    const int which = i / p.width, column = i % p.width;
    float total = 0;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) total += sums[which][w][column];
    partials[(static_cast<int64_t>(which) * gridDim.x + blockIdx.x) * p.width + column] = total;
  }
}

void check_width_of_heads(int64_t width) {
  if (width > kMostHeadWidth || width % 2 != 0)
    throw Error(Cause::usage, "queries and keys of width " + std::to_string(width) + " on a GPU",
                "heads whose width is even and at most " + std::to_string(kMostHeadWidth));
}

unsigned blocks_of_heads(const KernelLaunch& launch, const HeadPlace& place) {
  constexpr int kBlocksPerSm = 4;
  return std::min(num_blocks(place.count, kWarps), static_cast<unsigned>(launch.num_sms * kBlocksPerSm));
}

}  // namespace

void launch_heads(const KernelLaunch& launch, const HeadsForward& a) {
  check_width_of_heads(a.shape.head_width);
  const HeadPlace place = place_of_heads(a.shape);
  if (place.count == 0) return;
  with_element_type(a.shape.type, [&](auto element) {
    using T = typename decltype(element)::type;
    launch_early(launch, blocks_of_heads(launch, place), kThreads, heads_kernel<T>, "heads_kernel", place, a);
  });
}

void launch_heads_gradient(const KernelLaunch& launch, const GemmWorkspace& workspace, const HeadsBackward& a) {
  check_width_of_heads(a.shape.head_width);
  const HeadPlace place = place_of_heads(a.shape);
  float* const partials = static_cast<float*>(workspace.data);
  const unsigned blocks = place.count > 0 ? blocks_of_heads(launch, place) : 0;
  if (blocks > 0)
    with_element_type(a.shape.type, [&](auto element) {
      using T = typename decltype(element)::type;
      launch_early(launch, blocks, kThreads, heads_gradient_kernel<T>, "heads_gradient_kernel", place, a, partials);
    });
  if (!a.kept) return;
  // The gradients are arrays of one parameter buffer or of two.
  const int64_t distance = (reinterpret_cast<intptr_t>(a.dk_weight) - reinterpret_cast<intptr_t>(a.dq_weight)) /
                           static_cast<intptr_t>(sizeof(float));
  launch_column_finish(launch, {.partials = partials,
                                .out = a.dq_weight,
                                .parts = blocks,
                                .width = a.shape.head_width,
                                .batches = 2,
                                .out_stride = distance,
                                .accumulate = a.accumulate});
}

}  // namespace amdahl
