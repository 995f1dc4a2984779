// Both gradients of a dense layer with few rows in one kernel: some blocks compute dx, the others dw.
#include <algorithm>

#include "ops/gemm/cuda_small_weight.cuh"

namespace amdahl {
namespace {

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
  Quad active[T::kSlots];  // these loads overlap the reduction
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
  float4* const units = shared.received;  // reused: each thread writes only the element that it alone has read
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

// Enough for every path and row count; two blocks per SM use less than half of its shared memory.
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

/// Whether dw is large enough for weight_gradient_staged: more than one block of weight_gradient_split per SM.
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
    blocks = (blocks + cluster - 1) / cluster * cluster;  // blocks past the end exit at once
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
