// Both gradients of a dense layer of few rows in one kernel: some blocks do dx, the others dw.
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
  int input_blocks;    // the first blocks of the grid do dx; a multiple of the cluster
  int warps_o;         // warps of a block side by side along dw's rows
  int blocks_i;        // blocks along dw's columns
};

template <bool kVector>
__device__ __forceinline__ Quad load_unit(const float* row, int column, int width) {
  if constexpr (kVector) return load_quad(row + min(column, width - 4));
  Quad q = {};
  for (int i = 0; i < 4; ++i)
    if (column + i < width) q.v[i] = row[column + i];
  return q;
}

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
__device__ __forceinline__ void sum_columns(const BackwardArguments& a, const float4* units, int first_column, int columns) {
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
__device__ __forceinline__ void input_gradient(const BackwardArguments& a, typename T::Shared& shared, const ClusterPlace& cluster) {
  const int first_column = static_cast<int>(blockIdx.x) / cluster.size * kTileColumns, lane = threadIdx.x % 32;
  Sums<T::kRowTiles> sums;
  {
    const KShare k = share_of_k<T>(a.out, cluster);
    const int first_row = threadIdx.x / 32 % T::kWarpsM * T::kWarpRows;
    AlongK<kVectorO, 2 * T::kRowTiles> dy(a.dy, a.dy_stride, first_row, a.batch, k.first, a.out, lane);
    AcrossK<kVectorO, kVectorI> w(a.w, a.in, first_column, a.in, k.first, a.out, lane);
    sum_chunks<kMath, 16 * T::kWarpsK>(sums, dy, w, k.count, k.tail);
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
__device__ __forceinline__ void store_weight_row(const BackwardArguments& a, const float (&c)[4][4], int high, int o, int first,
                                                 int t) {
  float* row = a.dw + static_cast<int64_t>(o) * a.in;
  if constexpr (kVectorI) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const int column = first + column_of<true>(2 * t + e, 0);
      if (column >= a.in) continue;
      auto* to = reinterpret_cast<float4*>(row + column);
      float4 v = make_float4(c[0][2 * high + e], c[1][2 * high + e], c[2][2 * high + e], c[3][2 * high + e]);
      if (a.accumulate_weight) add_to(v, *to);
      *to = v;
    }
  } else {
#pragma unroll
    for (int j = 0; j < 4; ++j)
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int column = first + column_of<false>(2 * t + e, j);
        if (column < a.in) row[column] = c[j][2 * high + e] + (a.accumulate_weight ? row[column] : 0.0f);
      }
  }
}

/// dw[O,I] = dy[B,O]^T x[B,I]: k is the batch. A warp does 32 by 32 of dw.
template <MathMode kMath, bool kVectorO, bool kVectorI>
__device__ __forceinline__ void weight_gradient(const BackwardArguments& a) {
  const int block = static_cast<int>(blockIdx.x) - a.input_blocks, warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const int first_o = (block / a.blocks_i * a.warps_o + warp % a.warps_o) * 32;
  const int first_i = (block % a.blocks_i * (kTileWarps / a.warps_o) + warp / a.warps_o) * 32;
  if (first_o >= a.out) return;
  if (a.dw_sums && first_i == 0 && first_o + lane < a.out) {
    float sum = 0;
#pragma unroll 8
    for (int row = 0; row < a.batch; ++row) sum += a.dy[row * a.dy_stride + first_o + lane];
    a.dw_sums[first_o + lane] = sum + (a.accumulate_weight ? a.dw_sums[first_o + lane] : 0.0f);
  }
  if (first_i >= a.in) return;
  Sums<2> sums;
  AcrossK<true, kVectorO> dy(a.dy, a.dy_stride, first_o, a.out, 0, a.batch, lane);
  AcrossK<true, kVectorI> x(a.x, a.in, first_i, a.in, 0, a.batch, lane);
  sum_chunks<kMath, 16>(sums, dy, x, a.batch / 16, a.batch % 16 != 0);
#pragma unroll
  for (int j = 0; j < 4; ++j)
    if (const int o = first_o + (kVectorO ? column_of<true>(g, j) : column_of<false>(g, j)); o < a.out)
      store_weight_row<kVectorI>(a, sums.c[j / 2], j % 2, o, first_i, t);
}

template <MathMode kMath, class T, bool kVectorO, bool kVectorI>
__global__ void __launch_bounds__(kTileThreads, 2) small_backward_kernel(BackwardArguments a) {
  __shared__ typename T::Shared shared;
  const ClusterPlace cluster = cluster_place();
  const bool for_input = static_cast<int>(blockIdx.x) < a.input_blocks;
  let_successor_start();
  if (for_input) open_tile<T>(shared, cluster);
  wait_for_predecessor();
  if (for_input)
    input_gradient<kMath, T, kVectorO, kVectorI>(a, shared, cluster);
  else
    weight_gradient<kMath, kVectorO, kVectorI>(a);
}

using BackwardKernel = void(BackwardArguments);

template <MathMode kMath, class T>
BackwardKernel* kernel_of(bool vector_o, bool vector_i) {
  if (vector_o) return vector_i ? small_backward_kernel<kMath, T, true, true> : small_backward_kernel<kMath, T, true, false>;
  return vector_i ? small_backward_kernel<kMath, T, false, true> : small_backward_kernel<kMath, T, false, false>;
}

template <MathMode kMath>
BackwardKernel* kernel_for(int64_t batch, bool vector_o, bool vector_i) {
  if (batch <= 16) return kernel_of<kMath, Tile<16>>(vector_o, vector_i);
  if (batch <= 32) return kernel_of<kMath, Tile<32>>(vector_o, vector_i);
  return kernel_of<kMath, Tile<64>>(vector_o, vector_i);
}

BackwardArguments arguments_of(const DenseBackwardWeight* weight, const DenseBackwardInput* input) {
  BackwardArguments a{};
  if (weight) {
    a.dy = weight->dy, a.x = weight->x, a.dw = weight->dw, a.dw_sums = weight->dbias;
    a.batch = static_cast<int>(weight->batch), a.in = static_cast<int>(weight->in), a.out = static_cast<int>(weight->out);
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
    a.warps_o = a.out <= 32 ? 1 : a.out <= 64 ? 2 : 4;
    const int columns = kTileWarps / a.warps_o * 32, rows = a.warps_o * 32;
    a.blocks_i = (a.in + columns - 1) / columns;
    blocks += int64_t{a.blocks_i} * ((a.out + rows - 1) / rows);
    blocks = (blocks + cluster - 1) / cluster * cluster;  // the rest find nothing to do
  }
  auto* kernel = math == MathMode::tf32 ? kernel_for<MathMode::tf32>(a.batch, vector_o, vector_i)
                                        : kernel_for<MathMode::bf16>(a.batch, vector_o, vector_i);
  launch_clusters(launch, kernel, a, blocks, cluster, "small_backward_kernel");
}

void preload_small_backward(int device_index) {
  for (bool vector_o : {false, true})
    for (bool vector_i : {false, true})
      for (int64_t batch : {16, 32, 64})
        preload(device_index, kernel_for<MathMode::tf32>(batch, vector_o, vector_i),
                kernel_for<MathMode::bf16>(batch, vector_o, vector_i));
}

}  // namespace amdahl
