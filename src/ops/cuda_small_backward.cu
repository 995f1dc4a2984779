// Both gradients of a dense layer of few rows in one kernel: some blocks do dx, the others dw.
#include <algorithm>

#include "ops/cuda_adam.cuh"
#include "ops/cuda_small.h"
#include "ops/cuda_small_launch.cuh"

namespace amdahl {
namespace {

struct BackwardArguments {
  const float *dy, *x, *w, *activation;
  float *dw, *dw_sums, *dx, *dx_sums;
  int batch, in, out, dy_stride;
  float scale;
  bool accumulate_weight, accumulate_input;
  int input_blocks;   // the first blocks of the grid do dx; a multiple of the cluster
  bool split_weight;  // dw by weight_gradient_split, else weight_gradient_staged
  int blocks_i;       // blocks along dw's columns
};

template <bool kVector>
__device__ __forceinline__ Quad load_unit(const float* row, int column, int width) {
  if constexpr (kVector) return load_quad(row + min(column, width - 4));
  Quad q = {};
  for (int i = 0; i < 4; ++i)
    if (column + i < width) q.v[i] = row[column + i];
  return q;
}

__device__ __forceinline__ float4 as_float4(const Quad& q) { return make_float4(q.v[0], q.v[1], q.v[2], q.v[3]); }

template <bool kVector>
__device__ __forceinline__ void store_unit(float* row, int column, int width, const float4& value) {
  if constexpr (kVector) {
    *reinterpret_cast<float4*>(row + column) = value;
    return;
  }
  const float v[4] = {value.x, value.y, value.z, value.w};
  for (int i = 0; i < 4; ++i)
    if (column + i < width) row[column + i] = v[i];
}

/// Column sums of this block's units, which are whole columns: unit u of the slice lies at `units[u]`.
template <class T>
__device__ __forceinline__ void sum_columns(const BackwardArguments& a, const float4* units, int first_column,
                                            int columns) {
  const float* values = reinterpret_cast<const float*>(units);
  const int lane = threadIdx.x % 32;
  for (int c = threadIdx.x / 32; c < columns; c += kTileWarps) {
    float sum = 0;
    for (int row = lane; row < T::kRows; row += 32) sum += values[(c / 4 * T::kRows + row) * 4 + c % 4];
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
    const int column = first_column + c;
    if (lane == 0 && column < a.in) a.dx_sums[column] = sum + (a.accumulate_input ? a.dx_sums[column] : 0.0f);
  }
}

/// dx[B,I] = dy[B,O] w[O,I]: k is O, along which dy is contiguous and w is not.
template <MathMode kMath, class T, bool kVectorO, bool kVectorI>
__device__ __forceinline__ void input_gradient(const BackwardArguments& a, typename T::Shared& shared,
                                               const ClusterPlace& cluster) {
  const int first_column = static_cast<int>(blockIdx.x) / cluster.size * kTileColumns, lane = threadIdx.x % 32;
  Sums<T::kRowTiles> sums;
  {
    const KShare k = share_of_k<T>(a.out, cluster);
    const int first_row = threadIdx.x / 32 % T::kWarpsM * T::kWarpRows;
    AlongK<kVectorO, 2 * T::kRowTiles> dy(a.dy, a.dy_stride, first_row, a.batch, k.first, a.out, lane);
    AcrossK<kVectorO, kVectorI> w(a.w, a.in, first_column, a.in, k.first, a.out, lane);
    sum_chunks<kMath, 16 * T::kWarpsK>(sums, dy, w, k.count, k.tail, [] {});
  }
  Quad active[T::kSlots];  // on its way while the sums meet
  UnitPlace at;
#pragma unroll
  for (int slot = 0; slot < T::kSlots; ++slot) {
    own_unit<T, true>(cluster, slot, at);
    active[slot] = {{1, 1, 1, 1}};
    if (a.activation && at.row < a.batch)
      active[slot] = load_unit<kVectorI>(a.activation + at.row * a.in, first_column + at.column, a.in);
  }
  store_sums<T, kVectorI>(shared.partials, sums);
  float4 value[T::kSlots];
  reduce_tile<T, true>(shared, cluster, value);
  float4* const units = shared.received;  // each thread writes only where it alone has read
#pragma unroll
  for (int slot = 0; slot < T::kSlots; ++slot) {
    const bool own = own_unit<T, true>(cluster, slot, at), inside = own && at.row < a.batch;
    const auto masked = [&](float sum, float act) { return inside && act != 0.0f ? a.scale * sum : 0.0f; };
    const Quad& act = active[slot];
    float4& v = value[slot];
    v = make_float4(masked(v.x, act.v[0]), masked(v.y, act.v[1]), masked(v.z, act.v[2]), masked(v.w, act.v[3]));
    const int column = first_column + at.column;
    if (inside && column < a.in) store_unit<kVectorI>(a.dx + at.row * a.in, column, a.in, v);
    if (own) units[slot * kTileThreads + threadIdx.x] = v;
  }
  if (!a.dx_sums) return;
  __syncthreads();
  const int columns = kTileColumns / cluster.size;
  sum_columns<T>(a, units, first_column + cluster.rank * columns, columns);
}

template <bool kVectorI>
__device__ __forceinline__ void store_weights(const BackwardArguments& a, int o, int column, float4 v) {
  float* row = a.dw + static_cast<int64_t>(o) * a.in;
  if (a.accumulate_weight) add_to(v, as_float4(load_unit<kVectorI>(row, column, a.in)));
  store_unit<kVectorI>(row, column, a.in, v);
}

/// Where a finished piece of dw goes: to memory, or, as a step of Adam, into the weights.
struct StoreWeights {
  const BackwardArguments& a;
  __device__ __forceinline__ void operator()(int o, const int (&columns)[2], const float4 (&values)[2]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half)
      if (columns[half] < a.in) store_weights<true>(a, o, columns[half], values[half]);
  }
};

struct UpdateArguments {
  float *params, *m, *v;  // of the weights [O,I]
  AdamParameters adam;
};

struct UpdateWeights {
  const UpdateArguments& to;
  int in;
  AdamRule rule;
  __device__ __forceinline__ void operator()(int o, const int (&columns)[2], const float4 (&values)[2]) const {
    float4 w[2], m[2], v[2];
    const int64_t row = static_cast<int64_t>(o) * in;
#pragma unroll
    for (int half = 0; half < 2; ++half) {  // all loads before the first use
      const int64_t at = row + min(columns[half], in - 4);
      w[half] = *reinterpret_cast<const float4*>(to.params + at);
      m[half] = __ldcs(reinterpret_cast<const float4*>(to.m + at));
      v[half] = __ldcs(reinterpret_cast<const float4*>(to.v + at));
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (columns[half] >= in) continue;
      const int64_t at = row + columns[half];
      rule(w[half].x, values[half].x, m[half].x, v[half].x);
      rule(w[half].y, values[half].y, m[half].y, v[half].y);
      rule(w[half].z, values[half].z, m[half].z, v[half].z);
      rule(w[half].w, values[half].w, m[half].w, v[half].w);
      *reinterpret_cast<float4*>(to.params + at) = w[half];
      __stcs(reinterpret_cast<float4*>(to.m + at), m[half]);
      __stcs(reinterpret_cast<float4*>(to.v + at), v[half]);
    }
  }
};

/// A row of a warp's sums, of which the lane holds places 2t and 2t + 1. Called by whole warps.
template <class Store>
__device__ __forceinline__ void store_weight_row(const BackwardArguments& a, const Store& store, const float (&c)[4][4],
                                                 int high, int o, int first, int t) {
  const bool odd = t % 2 != 0;  // lanes t and t + 1 swap halves, so that each store fills 32-byte sectors
  float v[2][4];
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const float left = c[j][2 * high], right = c[j][2 * high + 1];
    const float swapped = __shfl_xor_sync(0xffffffffu, odd ? left : right, 1);
    v[0][j] = odd ? swapped : left;
    v[1][j] = odd ? right : swapped;
  }
  if (o >= a.out) return;
  const int column = first + 16 * (t / 2) + 4 * (t % 2);
  store(o, {column, column + 8},
        {make_float4(v[0][0], v[0][1], v[0][2], v[0][3]), make_float4(v[1][0], v[1][1], v[1][2], v[1][3])});
}

/// dbias[O] of the rows of dw that lane 0.. of this warp stand for.
__device__ __forceinline__ void sum_dy(const BackwardArguments& a, int o) {
  if (o >= a.out) return;
  float sum = 0;
#pragma unroll 8
  for (int row = 0; row < a.batch; ++row) sum += a.dy[row * a.dy_stride + o];
  a.dw_sums[o] = sum + (a.accumulate_weight ? a.dw_sums[o] : 0.0f);
}

constexpr int kSplitO = 64, kSplitI = 32;  // of dw, per block

/// dw of layers too small to fill the chip with blocks of weight_gradient_staged, or of odd widths: a block does 64 by
/// 32, its warps 16 rows of the batch each.
template <MathMode kMath, bool kVectorO, bool kVectorI>
__device__ __forceinline__ void weight_gradient_split(const BackwardArguments& a, float* partials) {
  using T = Tile<64>;
  const int block = static_cast<int>(blockIdx.x) - a.input_blocks, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int first_o = block / a.blocks_i * kSplitO, first_i = block % a.blocks_i * kSplitI;
  if (first_o >= a.out) return;
  const int own_o = first_o + warp % T::kWarpsM * 32, k = warp / T::kWarpsM * 16;
  Sums<2> sums;
  if (own_o < a.out && k < a.batch) {
    AcrossK<true, kVectorO> dy(a.dy, a.dy_stride, own_o, a.out, k, a.batch, lane);
    AcrossK<true, kVectorI> x(a.x, a.in, first_i, a.in, k, a.batch, lane);
    sum_chunks<kMath, 16>(sums, dy, x, k + 16 <= a.batch ? 1 : 0, k + 16 > a.batch, [] {});
  }
  store_sums<T, kVectorI, kVectorO>(partials, sums);
  if (a.dw_sums && first_i == 0 && threadIdx.x < kSplitO) sum_dy(a, first_o + static_cast<int>(threadIdx.x));
  __syncthreads();
#pragma unroll 1
  for (int unit = static_cast<int>(threadIdx.x); unit < T::kUnits; unit += kTileThreads) {
    const UnitPlace at = unit_place<T, false>(unit);
    if (first_o + at.row < a.out && first_i + at.column < a.in)
      store_weights<kVectorI>(a, first_o + at.row, first_i + at.column, sum_warps<T>(partials, at));
  }
}

constexpr int kStagedO = 128, kStagedI = 64;                     // of dw, per block
constexpr int kStrideO = kStagedO + 8, kStrideI = kStagedI + 8;  // floats between rows: 8 banks apart
constexpr int kStagedFloats = kSmallRows * (kStrideO + kStrideI);

/// Starts copying kColumns columns of a batch of rows into shared memory; rows past the batch become zeros, columns
/// past the end repeat valid ones.
template <int kColumns, int kStride>
__device__ __forceinline__ void stage(float* to, const float* matrix, int stride, int batch, int rows, int first,
                                      int width) {
  constexpr int kUnits = kColumns / 4;
#pragma unroll 4
  for (int i = static_cast<int>(threadIdx.x); i < rows * kUnits; i += kTileThreads) {
    const int row = i / kUnits, column = i % kUnits * 4;
    const uint32_t at = shared_address(to + row * kStride + column);
    const float* from = matrix + min(row, batch - 1) * stride + min(first + column, width - 4);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "r"(row < batch ? 16 : 0)
                 : "memory");
  }
}

/// dw[O,I] = dy[B,O]^T x[B,I]: k is the batch. A block does 128 by 64, its warps 32 by 32 each.
template <MathMode kMath, class Store>
__device__ __forceinline__ void weight_gradient_staged(const BackwardArguments& a, const Store& store, float* shared) {
  const int block = static_cast<int>(blockIdx.x) - a.input_blocks, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int first_o = block / a.blocks_i * kStagedO, first_i = block % a.blocks_i * kStagedI;
  if (first_o >= a.out) return;
  const int rows = (a.batch + 15) / 16 * 16, own_o = warp % 4 * 32, own_i = warp / 4 * 32;
  float *dy = shared, *x = shared + kSmallRows * kStrideO;
  stage<kStagedO, kStrideO>(dy, a.dy, a.dy_stride, a.batch, rows, first_o, a.out);
  stage<kStagedI, kStrideI>(x, a.x, a.in, a.batch, rows, first_i, a.in);
  if (a.dw_sums && first_i == 0 && threadIdx.x < kStagedO) sum_dy(a, first_o + static_cast<int>(threadIdx.x));
  asm volatile("cp.async.wait_all;" ::: "memory");
  __syncthreads();
  if (first_o + own_o >= a.out || first_i + own_i >= a.in) return;
  Sums<2> sums;
#pragma unroll 1
  for (int k = lane % 4; k < rows; k += 16) {
    Chunk<2> chunk;
#pragma unroll
    for (int i = 0; i < 4; ++i) {  // rows next to each other on the lanes t: no two lanes meet in a bank
      chunk.a[i] = load_quad(dy + (k + 4 * i) * kStrideO + own_o + lane / 4 * 4);
      chunk.b[i] = load_quad(x + (k + 4 * i) * kStrideI + own_i + lane / 4 * 4);
    }
    multiply_chunk<kMath, AcrossK<true, true>, AcrossK<true, true>>(sums, chunk);
  }
#pragma unroll
  for (int j = 0; j < 4; ++j)
    store_weight_row(a, store, sums.c[j / 2], j % 2, first_o + own_o + column_of<true>(lane / 4, j), first_i + own_i,
                     lane % 4);
}

template <MathMode kMath, class T, bool kVectorO, bool kVectorI>
__global__ void __launch_bounds__(kTileThreads, 2) small_backward_kernel(BackwardArguments a) {
  extern __shared__ float4 memory[];
  auto& shared = *reinterpret_cast<typename T::Shared*>(memory);
  const ClusterPlace cluster = cluster_place();
  const bool for_input = static_cast<int>(blockIdx.x) < a.input_blocks;
  let_successor_start();
  if (for_input) open_tile<T>(shared, cluster);
  wait_for_predecessor();
  if (for_input) return input_gradient<kMath, T, kVectorO, kVectorI>(a, shared, cluster);
  if constexpr (kVectorO && kVectorI)
    if (!a.split_weight) return weight_gradient_staged<kMath>(a, StoreWeights{a}, reinterpret_cast<float*>(memory));
  weight_gradient_split<kMath, kVectorO, kVectorI>(a, reinterpret_cast<float*>(memory));
}

template <MathMode kMath>
__global__ void __launch_bounds__(kTileThreads, 2) small_update_kernel(BackwardArguments a, UpdateArguments to) {
  extern __shared__ float4 memory[];
  let_successor_start();
  wait_for_predecessor();
  weight_gradient_staged<kMath>(a, UpdateWeights{to, a.in, AdamRule(to.adam)}, reinterpret_cast<float*>(memory));
}

// Enough for any path of any row count: two blocks to an SM take less than half of its memory.
constexpr size_t kBackwardBytes = std::max(
    {sizeof(Tile<64>::Shared), kTileWarps* Tile<64>::kWarpFloats * sizeof(float), kStagedFloats * sizeof(float)});

using BackwardKernel = void(BackwardArguments);

template <MathMode kMath, class T>
BackwardKernel* kernel_of(bool vector_o, bool vector_i) {
  if (vector_o)
    return vector_i ? small_backward_kernel<kMath, T, true, true> : small_backward_kernel<kMath, T, true, false>;
  return vector_i ? small_backward_kernel<kMath, T, false, true> : small_backward_kernel<kMath, T, false, false>;
}

template <MathMode kMath>
BackwardKernel* kernel_for(int64_t batch, bool vector_o, bool vector_i) {
  if (batch <= 16) return kernel_of<kMath, Tile<16>>(vector_o, vector_i);
  if (batch <= 32) return kernel_of<kMath, Tile<32>>(vector_o, vector_i);
  return kernel_of<kMath, Tile<64>>(vector_o, vector_i);
}

/// Whether dw is large enough for the blocks of weight_gradient_staged.
bool fills_chip(int num_sms, int64_t in, int64_t out) { return in * out > int64_t{kSplitO} * kSplitI * num_sms; }

BackwardArguments arguments_of(const DenseBackwardWeight* weight, const DenseBackwardInput* input) {
  BackwardArguments a{};
  if (weight) {
    a.dy = weight->dy, a.x = weight->x, a.dw = weight->dw, a.dw_sums = weight->dbias;
    a.batch = static_cast<int>(weight->batch), a.in = static_cast<int>(weight->in),
    a.out = static_cast<int>(weight->out);
    a.dy_stride = static_cast<int>(weight->dy_stride ? weight->dy_stride : weight->out);
    a.accumulate_weight = weight->accumulate;
  }
  if (input) {
    a.dy = input->dy, a.w = input->w, a.activation = input->activation, a.dx = input->dx, a.dx_sums = input->dbias;
    a.batch = static_cast<int>(input->batch), a.in = static_cast<int>(input->in), a.out = static_cast<int>(input->out);
    a.dy_stride = a.out;
    a.scale = input->scale, a.accumulate_input = input->accumulate;
  }
  return a;
}

}  // namespace

void launch_small_backward(const KernelLaunch& launch, MathMode math, const DenseBackwardWeight* weight,
                           const DenseBackwardInput* input) {
  BackwardArguments a = arguments_of(weight, input);
  const bool vector_o = a.out % 4 == 0 && a.dy_stride % 4 == 0 && aligned16(a.dy);
  const bool vector_i = a.in % 4 == 0 && aligned16(a.x) && aligned16(a.w) && aligned16(a.dw) && aligned16(a.dx) &&
                        aligned16(a.activation);  // null is aligned
  int cluster = 1;
  int64_t blocks = 0;
  if (input) {
    const int64_t tiles = (a.in + kTileColumns - 1) / kTileColumns;
    cluster = cluster_size(launch, tiles, a.out, a.batch);
    blocks = tiles * cluster;
    a.input_blocks = static_cast<int>(blocks);
  }
  if (weight) {
    a.split_weight = !vector_o || !vector_i || !fills_chip(launch.num_sms, a.in, a.out);
    const int columns = a.split_weight ? kSplitI : kStagedI, rows = a.split_weight ? kSplitO : kStagedO;
    a.blocks_i = (a.in + columns - 1) / columns;
    blocks += int64_t{a.blocks_i} * ((a.out + rows - 1) / rows);
    blocks = (blocks + cluster - 1) / cluster * cluster;  // the rest find nothing to do
  }
  auto* kernel = math == MathMode::tf32 ? kernel_for<MathMode::tf32>(a.batch, vector_o, vector_i)
                                        : kernel_for<MathMode::bf16>(a.batch, vector_o, vector_i);
  launch_clusters(launch, kernel, a, blocks, cluster, kBackwardBytes, "small_backward_kernel");
}

bool small_update_applies(MathMode math, int num_sms, int64_t batch, int64_t in, int64_t out) {
  return small_dense_applies(math, batch, in, out) && in % 4 == 0 && out % 4 == 0 && fills_chip(num_sms, in, out);
}

void launch_small_update(const KernelLaunch& launch, MathMode math, const DenseBackwardWeight& weight,
                         const AdamStep& adam) {
  BackwardArguments a = arguments_of(&weight, nullptr);
  a.blocks_i = (a.in + kStagedI - 1) / kStagedI;
  const UpdateArguments to{adam.params, adam.m, adam.v, adam_parameters(adam)};
  const unsigned blocks = static_cast<unsigned>(a.blocks_i * ((a.out + kStagedO - 1) / kStagedO));
  auto* kernel = math == MathMode::tf32 ? small_update_kernel<MathMode::tf32> : small_update_kernel<MathMode::bf16>;
  launch_early_shared(launch, {blocks, kTileThreads, kStagedFloats * sizeof(float)}, kernel, "small_update_kernel", a,
                      to);
}

void preload_small_backward(int device_index) {
  const auto prepare = [&](auto* kernel) {
    preload(device_index, kernel);
    cuda_check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBackwardBytes), device_index,
               "cudaFuncSetAttribute");
  };
  for (bool vector_o : {false, true})
    for (bool vector_i : {false, true})
      for (int64_t batch : {16, 32, 64}) {
        prepare(kernel_for<MathMode::tf32>(batch, vector_o, vector_i));
        prepare(kernel_for<MathMode::bf16>(batch, vector_o, vector_i));
      }
  prepare(small_update_kernel<MathMode::tf32>);
  prepare(small_update_kernel<MathMode::bf16>);
}

}  // namespace amdahl
