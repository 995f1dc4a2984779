// Device helpers: sums in a fixed order within a block, and across blocks with a final step in the last block to
// arrive.
#pragma once

#include <cstdint>

namespace amdahl {

inline constexpr int kWarp = 32;

__device__ __forceinline__ double warp_sum(double value) {
  for (int offset = kWarp / 2; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffffffffu, value, offset);
  return value;
}
__device__ __forceinline__ float warp_sum(float value) {
  for (int offset = kWarp / 2; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffffffffu, value, offset);
  return value;
}
/// Sum of `value` over a block of kThreads threads, valid on thread 0.
template <int kThreads>
__device__ __forceinline__ double block_sum(double value) {
  __shared__ double warps[kThreads / kWarp];
  value = warp_sum(value);
  __syncthreads();  // all reads of an earlier call are complete
  if (threadIdx.x % kWarp == 0) warps[threadIdx.x / kWarp] = value;
  __syncthreads();
  double total = 0;
  if (threadIdx.x == 0)
    for (int i = 0; i < kThreads / kWarp; ++i) total += warps[i];
  return total;
}

/// Adds every thread's values to sums[i], if it is not null. The whole block calls it, once.
template <int kCount>
__device__ __forceinline__ void add_to_sums(uint32_t* sums, const uint32_t (&values)[kCount]) {
  if (!sums) return;
  __shared__ uint32_t totals[kCount];
  if (threadIdx.x < kCount) totals[threadIdx.x] = 0;
  __syncthreads();
  for (int i = 0; i < kCount; ++i) {
    uint32_t value = values[i];
    for (int offset = kWarp / 2; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffffffffu, value, offset);
    if (threadIdx.x % kWarp == 0) atomicAdd(&totals[i], value);
  }
  __syncthreads();
  if (threadIdx.x < kCount) atomicAdd(&sums[threadIdx.x], totals[threadIdx.x]);
}

/// True in every thread of the block that arrives last of `num_blocks` at `counter`; that block then sees what the
/// others wrote before calling. Leaves the counter at 0 for the next kernel. Call with the whole block.
__device__ __forceinline__ bool arrives_last(unsigned* counter, unsigned num_blocks) {
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    last = atomicAdd(counter, 1u) == num_blocks - 1;
    if (last) *counter = 0;
  }
  __syncthreads();
  if (last) __threadfence();
  return last;
}

/// Sums the loss and the number of correct rows over all blocks of the grid into `stats`.
template <int kThreads>
__device__ __forceinline__ void finish_stats(double loss, double correct, float scale, bool accumulate, float* stats,
                                             double2* partials, unsigned* counter) {
  loss = block_sum<kThreads>(loss);
  correct = block_sum<kThreads>(correct);
  if (gridDim.x > 1) {
    if (threadIdx.x == 0) partials[blockIdx.x] = make_double2(loss, correct);
    if (!arrives_last(counter, gridDim.x)) return;
    double2 sums = make_double2(0, 0);
    for (unsigned i = threadIdx.x; i < gridDim.x; i += kThreads) {
      sums.x += __ldcg(&partials[i].x);
      sums.y += __ldcg(&partials[i].y);
    }
    loss = block_sum<kThreads>(sums.x);
    correct = block_sum<kThreads>(sums.y);
  }
  if (threadIdx.x == 0) {
    stats[0] = static_cast<float>(loss * scale) + (accumulate ? stats[0] : 0.0f);
    stats[1] = static_cast<float>(correct) + (accumulate ? stats[1] : 0.0f);
  }
}

}  // namespace amdahl
