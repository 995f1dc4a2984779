// Compression of gradients: a thread block per block of kCompressedBlock values.
#include "ops/cuda_compression.h"
#include "ops/cuda_launch.cuh"
#include "ops/cuda_typed.cuh"
#include "ops/int8_scale.h"
#include "plan/compressed_blocks.h"

namespace amdahl {
namespace {

constexpr int kBlockValues = static_cast<int>(kCompressedBlock);
constexpr int kPerThread = kBlockValues / kThreads;
static_assert(kBlockValues % kThreads == 0 && (kBlockValues & (kBlockValues - 1)) == 0);

template <class To, class From>
__global__ void __launch_bounds__(kThreads) round_kernel(const From* from, To* to, int64_t n) {
  let_successor_start();
  wait_for_predecessor();
  for (int64_t i = thread_index(); i < n; i += thread_count()) to[i] = to_element<To>(to_float(from[i]));
}

/// The largest of a value of every thread, in every thread.
__device__ __forceinline__ unsigned block_most(unsigned value) {
  __shared__ unsigned warps[kThreads / 32];
  value = __reduce_max_sync(0xffffffffu, value);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = value;
  __syncthreads();
  unsigned most = 0;
  for (int i = 0; i < kThreads / 32; ++i) most = max(most, warps[i]);
  return most;
}

__global__ void __launch_bounds__(kThreads)
    compress_int8_kernel(const float* gradients, float* feedback, float* scales, int8_t* codes, int64_t n) {
  let_successor_start();
  wait_for_predecessor();
  const int64_t begin = static_cast<int64_t>(blockIdx.x) * kBlockValues;
  float x[kPerThread];
  unsigned most = 0;
#pragma unroll
  for (int k = 0; k < kPerThread; ++k) {
    const int64_t i = begin + k * kThreads + threadIdx.x;
    x[k] = i < n ? feedback[i] + gradients[i] : 0.0f;
    most = max(most, __float_as_uint(x[k]) & kMagnitudeBits);
  }
  most = block_most(most);
  const bool finite = most < kInfinityBits;
  const unsigned exponent = finite ? int8_exponent(most) : 1u;
  const float step = __uint_as_float(exponent << 23), inverse = __uint_as_float((254u - exponent) << 23);
  if (threadIdx.x == 0) scales[blockIdx.x] = finite ? step : __uint_as_float(0x7fc00000u);
#pragma unroll
  for (int k = 0; k < kPerThread; ++k) {
    const int64_t i = begin + k * kThreads + threadIdx.x;
    if (i >= n) continue;
    const float code = finite ? rintf(x[k] * inverse) : 1.0f;
    codes[i] = static_cast<int8_t>(code);
    feedback[i] = finite ? x[k] - code * step : 0.0f;
  }
}

__global__ void __launch_bounds__(kThreads)
    sum_int8_kernel(const char* messages, int64_t message_bytes, int ranks, float* gradients, int64_t n) {
  let_successor_start();
  wait_for_predecessor();
  const int64_t begin = static_cast<int64_t>(blockIdx.x) * kBlockValues;
#pragma unroll
  for (int k = 0; k < kPerThread; ++k) {
    const int64_t i = begin + k * kThreads + threadIdx.x;
    if (i >= n) continue;
    float sum = 0.0f;
    for (int rank = 0; rank < ranks; ++rank) {
      const auto* scales = reinterpret_cast<const float*>(messages + rank * message_bytes);
      const auto* codes = reinterpret_cast<const int8_t*>(scales + gridDim.x);
      sum += static_cast<float>(codes[i]) * scales[blockIdx.x];
    }
    gradients[i] = sum;
  }
}

// Sorts the block's values by magnitude, the largest first, of equal ones the lower place first.
__global__ void __launch_bounds__(kThreads) compress_topk_kernel(const float* gradients, float* feedback, float* values,
                                                                 uint16_t* places, int64_t n, int kept) {
  __shared__ unsigned long long keys[kBlockValues];
  __shared__ float x[kBlockValues];
  let_successor_start();
  wait_for_predecessor();
  const int64_t begin = static_cast<int64_t>(blockIdx.x) * kBlockValues;
  for (int i = threadIdx.x; i < kBlockValues; i += kThreads) {
    const bool there = begin + i < n;
    x[i] = there ? feedback[begin + i] + gradients[begin + i] : 0.0f;
    const unsigned long long magnitude = __float_as_uint(x[i]) & kMagnitudeBits;
    keys[i] = there ? magnitude << 16 | static_cast<unsigned>(kNoPlace - i) : 0ull;  // no place has such a key
  }
  for (int size = 2; size <= kBlockValues; size *= 2)
    for (int distance = size / 2; distance > 0; distance /= 2) {
      __syncthreads();
      for (int i = threadIdx.x; i < kBlockValues; i += kThreads) {
        const int other = i ^ distance;
        if (other < i) continue;
        const bool descending = (i & size) == 0;
        const unsigned long long a = keys[i], b = keys[other];
        if ((a < b) == descending) keys[i] = b, keys[other] = a;
      }
    }
  __syncthreads();
  values += static_cast<int64_t>(blockIdx.x) * kept;
  places += static_cast<int64_t>(blockIdx.x) * kept;
  for (int i = threadIdx.x; i < kept; i += kThreads) {
    const int place = kNoPlace - static_cast<int>(keys[i] & 0xffffu);
    const bool there = keys[i] != 0;
    values[i] = there ? x[place] : 0.0f;
    places[i] = there ? static_cast<uint16_t>(place) : kNoPlace;
  }
  __syncthreads();
  for (int i = threadIdx.x; i < kept; i += kThreads)
    if (keys[i] != 0) x[kNoPlace - static_cast<int>(keys[i] & 0xffffu)] = 0.0f;
  __syncthreads();
  for (int i = threadIdx.x; i < kBlockValues && begin + i < n; i += kThreads) feedback[begin + i] = x[i];
}

__global__ void __launch_bounds__(kThreads)
    sum_topk_kernel(const char* messages, int64_t message_bytes, int ranks, float* gradients, int64_t n, int kept) {
  __shared__ float sums[kBlockValues];
  let_successor_start();
  wait_for_predecessor();
  const int64_t begin = static_cast<int64_t>(blockIdx.x) * kBlockValues,
                first = static_cast<int64_t>(blockIdx.x) * kept;
  for (int i = threadIdx.x; i < kBlockValues; i += kThreads) sums[i] = 0.0f;
  for (int rank = 0; rank < ranks; ++rank) {
    __syncthreads();  // the places of one rank are all different, those of two may be equal
    const auto* values = reinterpret_cast<const float*>(messages + rank * message_bytes);
    const auto* places = reinterpret_cast<const uint16_t*>(values + static_cast<int64_t>(gridDim.x) * kept);
    for (int i = threadIdx.x; i < kept; i += kThreads)
      if (places[first + i] != kNoPlace) sums[places[first + i]] += values[first + i];
  }
  __syncthreads();
  for (int i = threadIdx.x; i < kBlockValues && begin + i < n; i += kThreads) gradients[begin + i] = sums[i];
}

unsigned blocks_of(int64_t n) { return static_cast<unsigned>(compressed_blocks(n)); }

}  // namespace

void launch_round(const KernelLaunch& launch, const RoundValues& a) {
  if (a.n == 0) return;
  with_element_types(a.from_type, a.to_type, [&](auto from, auto to) {
    using From = typename decltype(from)::type;
    using To = typename decltype(to)::type;
    launch_early(launch, streaming_blocks(launch, a.n), kThreads, round_kernel<To, From>, "round_kernel",
                 static_cast<const From*>(a.from), static_cast<To*>(a.to), a.n);
  });
}

void launch_compress_int8(const KernelLaunch& launch, const CompressValues& a) {
  if (a.n == 0) return;
  auto* const scales = static_cast<float*>(a.message);
  launch_early(launch, blocks_of(a.n), kThreads, compress_int8_kernel, "compress_int8_kernel", a.gradients, a.feedback,
               scales, reinterpret_cast<int8_t*>(scales + compressed_blocks(a.n)), a.n);
}

void launch_sum_int8(const KernelLaunch& launch, const SumMessages& a) {
  if (a.n == 0) return;
  launch_early(launch, blocks_of(a.n), kThreads, sum_int8_kernel, "sum_int8_kernel",
               static_cast<const char*>(a.messages), a.message_bytes, a.ranks, a.gradients, a.n);
}

void launch_compress_topk(const KernelLaunch& launch, const CompressValues& a) {
  if (a.n == 0) return;
  auto* const values = static_cast<float*>(a.message);
  launch_early(launch, blocks_of(a.n), kThreads, compress_topk_kernel, "compress_topk_kernel", a.gradients, a.feedback,
               values, reinterpret_cast<uint16_t*>(values + compressed_blocks(a.n) * a.kept), a.n,
               static_cast<int>(a.kept));
}

void launch_sum_topk(const KernelLaunch& launch, const SumMessages& a) {
  if (a.n == 0) return;
  launch_early(launch, blocks_of(a.n), kThreads, sum_topk_kernel, "sum_topk_kernel",
               static_cast<const char*>(a.messages), a.message_bytes, a.ranks, a.gradients, a.n,
               static_cast<int>(a.kept));
}

}  // namespace amdahl
