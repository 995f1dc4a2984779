// Reduction kernels: column sums with masking, and the losses.
#include <cmath>

#include "ops/cuda_launch.cuh"
#include "ops/cuda_reduce.cuh"

namespace amdahl {
namespace {

// A block is 32 column lanes by 8 row lanes; a column lane owns kVec neighbouring columns.
constexpr int kRowLanes = kThreads / kWarp;
constexpr int kUnroll = 4;

enum class Mask { none, activation, bits };

template <int kVec>
struct Vec {
  float v[kVec];
};

template <int kVec>
__device__ __forceinline__ Vec<kVec> load_vec(const float* pointer) {
  Vec<kVec> r;
  if constexpr (kVec == 4) {
    const float4 packed = *reinterpret_cast<const float4*>(pointer);
    r.v[0] = packed.x, r.v[1] = packed.y, r.v[2] = packed.z, r.v[3] = packed.w;
  } else {
    r.v[0] = *pointer;
  }
  return r;
}

template <int kVec>
__device__ __forceinline__ void store_vec(float* pointer, const Vec<kVec>& r) {
  if constexpr (kVec == 4)
    *reinterpret_cast<float4*>(pointer) = make_float4(r.v[0], r.v[1], r.v[2], r.v[3]);
  else
    *pointer = r.v[0];
}

struct SumGrid {
  int64_t rows_per_block;
  int words_per_row;  // of the bit mask
};

/// Masks the rows of one block and returns this thread's column sums.
template <int kVec, Mask kMask>
__device__ __forceinline__ Vec<kVec> mask_rows(const MaskAndSum& a, const SumGrid& grid, int64_t column) {
  Vec<kVec> sum = {};
  const int64_t begin = blockIdx.y * grid.rows_per_block;
  const int64_t end = min(begin + grid.rows_per_block, a.batch);
  for (int64_t base = begin + threadIdx.x / kWarp; base < end; base += kRowLanes * kUnroll) {
    Vec<kVec> value[kUnroll], active[kUnroll];
    unsigned word[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {  // all loads first, so that they overlap
      const int64_t row = base + u * kRowLanes;
      if (row >= end) continue;
      value[u] = load_vec<kVec>(a.dx + row * a.width + column);
      if constexpr (kMask == Mask::activation) active[u] = load_vec<kVec>(a.activation + row * a.width + column);
      if constexpr (kMask == Mask::bits)
        word[u] = reinterpret_cast<const unsigned*>(a.mask)[row * grid.words_per_row + column / 32] >> (column % 32);
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const int64_t row = base + u * kRowLanes;
      if (row >= end) continue;
#pragma unroll
      for (int i = 0; i < kVec; ++i) {
        if constexpr (kMask == Mask::activation) value[u].v[i] = active[u].v[i] != 0.0f ? value[u].v[i] : 0.0f;
        if constexpr (kMask == Mask::bits) value[u].v[i] = (word[u] >> i & 1u) ? value[u].v[i] : 0.0f;
        sum.v[i] += value[u].v[i];
      }
      if constexpr (kMask != Mask::none) store_vec<kVec>(a.dx + row * a.width + column, value[u]);
    }
  }
  return sum;
}

template <int kVec, Mask kMask>
__global__ void __launch_bounds__(kThreads, 4)  // [1024, 8192] then takes one wave on 132 SMs
    mask_and_sum_kernel(MaskAndSum a, SumGrid grid, float* partials, unsigned* counters) {
  constexpr int kColumns = kWarp * kVec;
  __shared__ float sums[kRowLanes][kColumns];
  const int lane = threadIdx.x % kWarp, row_lane = threadIdx.x / kWarp;
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kColumns + lane * kVec;
  Vec<kVec> sum = {};
  if (column < a.width) sum = mask_rows<kVec, kMask>(a, grid, column);
  if (!a.dbias) return;
#pragma unroll
  for (int i = 0; i < kVec; ++i) sums[row_lane][lane * kVec + i] = sum.v[i];
  __syncthreads();
  // From here a thread owns one column of the block's kColumns.
  const int64_t own = static_cast<int64_t>(blockIdx.x) * kColumns + threadIdx.x;
  const bool owns = threadIdx.x < kColumns && own < a.width;
  float total = 0;
  if (owns)
    for (int r = 0; r < kRowLanes; ++r) total += sums[r][threadIdx.x];
  if (gridDim.y > 1) {
    if (owns) partials[blockIdx.y * a.width + own] = total;
    if (!arrives_last(&counters[blockIdx.x], gridDim.y)) return;
    total = 0;
    if (owns)
      for (unsigned block = 0; block < gridDim.y; ++block) total += __ldcg(&partials[block * a.width + own]);
  }
  if (owns) a.dbias[own] = total + (a.accumulate ? a.dbias[own] : 0.0f);
}

__global__ void __launch_bounds__(kThreads) mse_kernel(MseLoss a, double2* partials, unsigned* counter) {
  let_successor_start();
  wait_for_predecessor();
  const int64_t n = a.batch * a.out;
  const float factor = 2.0f * a.scale * (a.gradient_scale ? *a.gradient_scale : 1.0f);
  float loss = 0;
  for (int64_t i = thread_index(); i < n; i += thread_count()) {
    const float difference = a.prediction[i] - a.target[i];
    loss += difference * difference;
    a.d_prediction[i] = factor * difference;
  }
  finish_stats<kThreads>(loss, 0.0, a.scale, a.accumulate, a.stats, partials, counter);
}

struct Best {
  float value;
  int index;
};

/// Largest value of the warp; the lowest index on ties.
__device__ __forceinline__ Best warp_best(Best best) {
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    const float value = __shfl_xor_sync(0xffffffffu, best.value, offset);
    const int index = __shfl_xor_sync(0xffffffffu, best.index, offset);
    if (value > best.value || (value == best.value && index < best.index)) best = {value, index};
  }
  return best;
}

// One warp per row.
__global__ void __launch_bounds__(kThreads)
    cross_entropy_kernel(CrossEntropyLoss a, double2* partials, unsigned* counter) {
  let_successor_start();
  wait_for_predecessor();
  const int lane = threadIdx.x % kWarp;
  const int64_t num_warps = thread_count() / kWarp;
  const float scale = a.scale * (a.gradient_scale ? *a.gradient_scale : 1.0f);
  float loss = 0, correct = 0;
  for (int64_t row = thread_index() / kWarp; row < a.batch; row += num_warps) {
    const float* logits = a.logits + row * a.classes;
    Best best{-INFINITY, INT32_MAX};
    for (int64_t c = lane; c < a.classes; c += kWarp)
      if (logits[c] > best.value || best.index == INT32_MAX) best = {logits[c], static_cast<int>(c)};
    best = warp_best(best);
    float sum = 0;
    for (int64_t c = lane; c < a.classes; c += kWarp) sum += expf(logits[c] - best.value);
    sum = warp_sum(sum);
    const float raw_label = a.labels[row];
    const bool valid = raw_label >= 0 && raw_label < static_cast<float>(a.classes);
    const int label = valid ? static_cast<int>(raw_label) : 0;
    for (int64_t c = lane; c < a.classes; c += kWarp) {
      const float probability = expf(logits[c] - best.value) / sum;
      a.d_logits[row * a.classes + c] = scale * (probability - (c == label ? 1.0f : 0.0f));
    }
    if (lane == 0) {
      loss += valid ? logf(sum) - (logits[label] - best.value) : NAN;  // a label that is no class gives NaN
      correct += valid && best.index == label ? 1.0f : 0.0f;
    }
  }
  finish_stats<kThreads>(loss, correct, a.scale, a.accumulate, a.stats, partials, counter);
}

template <int kVec>
auto mask_and_sum_kernel_for(const MaskAndSum& a) {
  if (a.mask) return mask_and_sum_kernel<kVec, Mask::bits>;
  return a.activation ? mask_and_sum_kernel<kVec, Mask::activation> : mask_and_sum_kernel<kVec, Mask::none>;
}

double2* loss_partials(const KernelLaunch& launch) { return reinterpret_cast<double2*>(launch.scratch.partials); }

unsigned loss_blocks(const KernelLaunch& launch, int64_t work, int64_t per_block) {
  return std::min(num_blocks(work, per_block), static_cast<unsigned>(2 * launch.num_sms));
}

}  // namespace

void launch_mask_and_sum(const KernelLaunch& launch, const MaskAndSum& a) {
  if (a.batch * a.width == 0) return;
  const bool vector = a.width % 4 == 0 && aligned16(a.dx) && (a.mask || !a.activation || aligned16(a.activation));
  const int64_t columns = kWarp * (vector ? 4 : 1);
  const unsigned tiles = num_blocks(a.width, columns);
  // Enough blocks to fill the GPU, each with at least four unrolled passes over rows; with few rows, one block per
  // tile.
  const int64_t most = std::min<int64_t>(KernelScratch::kPartialFloats / a.width,
                                         tiles <= KernelScratch::kNumCounters ? 6 * launch.num_sms / tiles : 1);
  const int64_t wanted = (a.batch + 127) / 128;
  const int64_t row_blocks = std::max<int64_t>(1, std::min({wanted, most, int64_t{65535}}));
  const SumGrid grid{(a.batch + row_blocks - 1) / row_blocks, static_cast<int>(mask_row_bits(a.width) / 32)};
  const dim3 blocks(tiles, num_blocks(a.batch, grid.rows_per_block));
  auto* kernel = vector ? mask_and_sum_kernel_for<4>(a) : mask_and_sum_kernel_for<1>(a);
  kernel<<<blocks, kThreads, 0, launch.stream>>>(a, grid, launch.scratch.partials, launch.scratch.counters);
  check_launch(launch, "mask_and_sum_kernel");
}

void launch_mse_loss(const KernelLaunch& launch, const MseLoss& a) {
  launch_early(launch, loss_blocks(launch, a.batch * a.out, 4 * kThreads), kThreads, mse_kernel, "mse_kernel", a,
               loss_partials(launch), launch.scratch.counters);
}

void launch_cross_entropy_loss(const KernelLaunch& launch, const CrossEntropyLoss& a) {
  launch_early(launch, loss_blocks(launch, a.batch, kThreads / kWarp), kThreads, cross_entropy_kernel,
               "cross_entropy_kernel", a, loss_partials(launch), launch.scratch.counters);
}

void preload_sums(int device_index) {
  preload(device_index, mask_and_sum_kernel<4, Mask::none>, mask_and_sum_kernel<4, Mask::activation>,
          mask_and_sum_kernel<4, Mask::bits>, mask_and_sum_kernel<1, Mask::none>,
          mask_and_sum_kernel<1, Mask::activation>, mask_and_sum_kernel<1, Mask::bits>, mse_kernel,
          cross_entropy_kernel);
}

}  // namespace amdahl
