// y = dropout(relu(x w^T + bias)) with few rows in one kernel.
#include <limits>

#include "base/philox.h"
#include "ops/gemm/cuda_small.h"
#include "ops/gemm/cuda_small_launch.cuh"

namespace amdahl {
namespace {

struct ForwardArguments {
  const float *x, *w, *bias;
  float* y;
  unsigned* mask;  // words of 32 columns
  int batch, in, out;
  int mask_words;  // per row
  bool relu, dropout;
  bool store_vectors;  // stores four outputs, and loads their biases, at a time
  // Dropout, as in launch_dropout.
  uint64_t seed;
  const uint64_t* step;
  uint32_t layer, row_offset, first_block, keep_threshold;  // blocks of four columns
  float keep_scale;
};

/// The elements of a unit that dropout keeps: bits 0 to 3.
__device__ __forceinline__ unsigned kept_of(const ForwardArguments& a, uint32_t step, int row, int column) {
  if (!a.dropout) return 15;
  const Philox4 draw = dropout_draw(a.seed, a.first_block + static_cast<uint32_t>(column / 4),
                                    a.row_offset + static_cast<uint32_t>(row), step, a.layer);
  unsigned kept = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) kept |= (draw.v[i] < a.keep_threshold ? 1u : 0u) << i;
  return kept;
}

/// Bias, relu, dropout, store and mask of one unit. Called by whole warps; `inside`: the lane has a unit within the
/// output.
__device__ __forceinline__ void finish_unit(const ForwardArguments& a, float4 sum, const Quad& bias, unsigned kept,
                                            int row, int column, bool inside) {
  float v[4] = {sum.x + bias.v[0], sum.y + bias.v[1], sum.z + bias.v[2], sum.w + bias.v[3]};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (a.relu) v[i] = v[i] < 0.0f ? 0.0f : v[i];  // keeps NaN, unlike fmaxf
    if (a.dropout) v[i] = (kept >> i & 1u) ? v[i] * a.keep_scale : 0.0f;
  }
  float* out = a.y + row * a.out + column;
  if (inside && a.store_vectors) {
    *reinterpret_cast<float4*>(out) = make_float4(v[0], v[1], v[2], v[3]);
  } else if (inside) {
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (column + i < a.out) out[i] = v[i];
  }
  if (!a.mask) return;
  unsigned bits = 0;  // eight neighbouring lanes hold the 32 columns of a word
#pragma unroll
  for (int i = 0; i < 4; ++i) bits |= (inside && column + i < a.out && v[i] != 0.0f ? 1u : 0u) << i;
  bits <<= column % 32;
#pragma unroll
  for (int offset = 1; offset < 8; offset *= 2) bits |= __shfl_xor_sync(0xffffffffu, bits, offset);
  if (inside && column % 32 == 0) a.mask[row * a.mask_words + column / 32] = bits;
}

__device__ __forceinline__ Quad load_bias(const ForwardArguments& a, int column) {
  Quad bias = {};
  if (!a.bias) return bias;
  if (a.store_vectors) return load_quad(a.bias + min(column, a.out - 4));
#pragma unroll
  for (int i = 0; i < 4; ++i) bias.v[i] = a.bias[min(column + i, a.out - 1)];
  return bias;
}

template <MathMode kMath, class T, bool kVector>
__global__ void __launch_bounds__(kTileThreads, 2) small_forward_kernel(ForwardArguments a) {
  __shared__ typename T::Shared shared;
  const ClusterPlace cluster = cluster_place();
  const int first_column = static_cast<int>(blockIdx.x) / cluster.size * kTileColumns, lane = threadIdx.x % 32;
  let_successor_start();
  open_tile<T>(shared, cluster);
  wait_for_predecessor();
  const uint32_t step = a.dropout ? static_cast<uint32_t>(*a.step) : 0;
  UnitPlace at;
  Quad bias[T::kSlots];
  unsigned kept = 0;  // four bits per slot
  Sums<T::kRowTiles> sums;
  const KShare k = share_of_k<T>(a.in, cluster);
  AlongK<kVector, 2 * T::kRowTiles> x(a.x, a.in, threadIdx.x / 32 % T::kWarpsM * T::kWarpRows, a.batch, k.first, a.in,
                                      lane);
  AlongK<kVector, 4> w(a.w, a.in, first_column, a.out, k.first, a.in, lane);
  const int slots = cluster.size > 1 ? 1 : T::kSlots;
  sum_chunks<kMath, 16 * T::kWarpsK>(sums, x, w, k.count, k.tail, [&] {
#pragma unroll 1
    for (int slot = 0; slot < slots; ++slot) {
      own_unit<T, false>(cluster, slot, at);
      kept |= kept_of(a, step, at.row, first_column + at.column) << 4 * slot;
    }
  });
#pragma unroll
  for (int slot = 0; slot < T::kSlots; ++slot) {  // these loads overlap the reduction
    own_unit<T, false>(cluster, slot, at);
    bias[slot] = load_bias(a, first_column + at.column);
  }
  store_sums<T, false>(shared.partials, sums);
  float4 value[T::kSlots];
  reduce_tile<T, false>(shared, cluster, value);
#pragma unroll 1
  for (int slot = 0; slot < slots; ++slot) {
    const bool own = own_unit<T, false>(cluster, slot, at);
    const int column = first_column + at.column;
    finish_unit(a, value[0], bias[0], kept >> 4 * slot, at.row, column, own && at.row < a.batch && column < a.out);
    value[0] = value[T::kSlots - 1], bias[0] = bias[T::kSlots - 1];  // at most two
  }
}

using ForwardKernel = void(ForwardArguments);

template <MathMode kMath, class T>
ForwardKernel* kernel_of(bool vector) {
  return vector ? small_forward_kernel<kMath, T, true> : small_forward_kernel<kMath, T, false>;
}

template <MathMode kMath>
ForwardKernel* kernel_for(int64_t batch, bool vector) {
  if (batch <= 16) return kernel_of<kMath, Tile<16>>(vector);
  return batch <= 32 ? kernel_of<kMath, Tile<32>>(vector) : kernel_of<kMath, Tile<64>>(vector);
}

}  // namespace

bool small_dense_applies(MathMode math, int64_t batch, int64_t in, int64_t out) {
  constexpr int64_t kMost = std::numeric_limits<int>::max() / 2;  // offsets are ints
  return has_small_kernels(math) && batch >= 1 && batch <= kSmallRows && in >= 1 && out >= 1 && in * out <= kMost &&
         kSmallRows * std::max(in, out) <= kMost;
}

void launch_small_forward(const KernelLaunch& launch, MathMode math, const DenseForward& d) {
  const bool vector = d.in % 4 == 0 && aligned16(d.x) && aligned16(d.w);
  ForwardArguments a{.x = d.x, .w = d.w, .bias = d.bias, .y = d.y};
  a.mask = d.relu ? reinterpret_cast<unsigned*>(d.mask) : nullptr;
  a.batch = static_cast<int>(d.batch), a.in = static_cast<int>(d.in), a.out = static_cast<int>(d.out);
  a.mask_words = static_cast<int>(mask_row_bits(d.out) / 32);
  a.relu = d.relu, a.dropout = d.dropout.p > 0, a.store_vectors = d.out % 4 == 0 && aligned16(d.y) && aligned16(d.bias);
  a.seed = d.dropout.seed, a.step = d.dropout.step, a.layer = d.dropout.layer;
  a.row_offset = static_cast<uint32_t>(d.dropout.row_offset);
  a.first_block = static_cast<uint32_t>(d.dropout.column_offset / 4);
  a.keep_threshold = dropout_keep_threshold(d.dropout.p);
  a.keep_scale = static_cast<float>(1.0 / (1.0 - d.dropout.p));
  auto* kernel = math == MathMode::tf32 ? kernel_for<MathMode::tf32>(d.batch, vector)
                                        : kernel_for<MathMode::bf16>(d.batch, vector);
  const int64_t tiles = (d.out + kTileColumns - 1) / kTileColumns;
  const int cluster = cluster_size(launch, tiles, d.in, d.batch);
  launch_clusters(launch, kernel, a, tiles * cluster, cluster, 0, "small_forward_kernel");
}

bool preload_small(int device_index) {
  for (bool vector : {false, true})
    for (int64_t batch : {16, 32, 64})
      preload(device_index, kernel_for<MathMode::tf32>(batch, vector), kernel_for<MathMode::bf16>(batch, vector));
  preload_small_backward(device_index);
  return true;
}

}  // namespace amdahl
