// Layer normalisation: a row is read once and kept in registers.
#include "ops/sequence/cuda_norm.h"

#include "ops/cuda_launch.cuh"
#include "ops/gemm/cuda_column_finish.h"
#include "ops/sequence/cuda_norm_row.cuh"

namespace amdahl {
namespace {

/// kRowThreads threads per row, each with kChunks groups of kVec columns; a block has whole rows.
template <class D, class Y, int kRowThreads, int kChunks, int kVec>
__global__ void __launch_bounds__(kThreads) layer_norm_kernel(LayerNormForward a) {
  static_assert(kRowThreads == kWarp || kRowThreads == kThreads, "the rows of a block share no barrier");
  let_successor_start();
  wait_for_predecessor();
  const int lane = threadIdx.x % kRowThreads;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * (kThreads / kRowThreads) + threadIdx.x / kRowThreads;
  if (row >= a.rows) return;
  const int64_t at = row * a.width;
  Floats<kVec> x[kChunks];
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    const int64_t column = (static_cast<int64_t>(c) * kRowThreads + lane) * kVec;
    x[c] = {};
    if (column < a.width) x[c] = load_floats<kVec>(a.x + at + column);
  }
  if (a.delta) {
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      const int64_t column = (static_cast<int64_t>(c) * kRowThreads + lane) * kVec;
      if (column >= a.width) continue;
      const Floats<kVec> delta = load_floats<kVec>(static_cast<const D*>(a.delta) + at + column);
#pragma unroll
      for (int i = 0; i < kVec; ++i) x[c].v[i] += delta.v[i];
    }
  }
  normalise_row<Y, kRowThreads>(a, row, lane, x);
}

/// What backward reads of a row.
template <class Dy, int kChunks, int kVec>
struct RowInputs {
  Elements<Dy, kVec> dy[kChunks];
  Elements<float, kVec> x[kChunks], residual[kChunks];
  float mean = 0, rstd = 0;
};

template <class Dy, int kRowThreads, int kChunks, int kVec>
__device__ __forceinline__ void load_row(const LayerNormBackward& a, int64_t row, RowInputs<Dy, kChunks, kVec>& in) {
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    const int64_t column = (static_cast<int64_t>(c) * kRowThreads + threadIdx.x % kRowThreads) * kVec;
    in.dy[c] = {}, in.x[c] = {}, in.residual[c] = {};
    if (row >= a.rows || column >= a.width) continue;
    in.x[c] = load_elements<kVec>(a.x + row * a.width + column);
    in.dy[c] = load_elements<kVec>(static_cast<const Dy*>(a.dy) + row * a.width + column);
    if (a.d_residual) in.residual[c] = load_elements<kVec>(a.d_residual + row * a.width + column);
  }
  if (row >= a.rows) return;
  in.rstd = a.rstd[row];
  if (a.mean) in.mean = a.mean[row];
}

/// Rows that a warp covers share a block.
template <int kRowThreads>
inline constexpr int kBlockThreads = kRowThreads == kWarp ? kThreads : kRowThreads;
/// All blocks of backward run at once: its grid is as large as the GPU.
template <int kRowThreads>
inline constexpr int kBlocksPerSm = std::max(1, 640 / kBlockThreads<kRowThreads>);

/// kRowThreads threads have one row at a time and keep its part of the sums of dgamma and dbeta; their next row is
/// loaded meanwhile. partials is [2, blocks, width].
template <class Dy, class Dx, int kRowThreads, int kChunks, int kVec>
__global__ void __launch_bounds__(kBlockThreads<kRowThreads>, kBlocksPerSm<kRowThreads>)
    layer_norm_gradient_kernel(LayerNormBackward a, float* partials) {
  constexpr int kRows = kBlockThreads<kRowThreads> / kRowThreads;
  let_successor_start();
  wait_for_predecessor();
  const int lane = static_cast<int>(threadIdx.x) % kRowThreads,
            row_of_block = static_cast<int>(threadIdx.x) / kRowThreads;
  const int64_t step = static_cast<int64_t>(gridDim.x) * kRows;
  const auto column_of = [lane](int c) { return (static_cast<int64_t>(c) * kRowThreads + lane) * kVec; };
  Floats<kVec> gamma[kChunks], dgamma[kChunks], dbeta[kChunks];
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    const int64_t column = column_of(c);
    gamma[c] = {}, dgamma[c] = {}, dbeta[c] = {};
    if (column < a.width) gamma[c] = load_floats<kVec>(a.gamma + column);
  }
  RowInputs<Dy, kChunks, kVec> next;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kRows + row_of_block;
  load_row<Dy, kRowThreads>(a, first, next);
  int turn = 0;
  for (int64_t row = first; row < a.rows; row += step, turn ^= 1) {
    const RowInputs<Dy, kChunks, kVec> in = next;
    load_row<Dy, kRowThreads>(a, row + step, next);
    float2 sums = {0, 0};  // of g = dy * gamma, and of g * x_hat
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      const Floats<kVec> dy = to_floats(in.dy[c]);
#pragma unroll
      for (int i = 0; i < kVec; ++i) {  // columns past the end have dy = 0
        const float x_hat = (in.x[c].e[i] - in.mean) * in.rstd, g = dy.v[i] * gamma[c].v[i];
        sums.x += g, sums.y += g * x_hat;
        dgamma[c].v[i] += dy.v[i] * x_hat, dbeta[c].v[i] += dy.v[i];
      }
    }
    sums = row_sums<kRowThreads>(sums, turn);
    const float mean_g = a.mean ? sums.x / static_cast<float>(a.width) : 0.0f,
                mean_gx = sums.y / static_cast<float>(a.width);
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      const int64_t column = column_of(c);
      if (column >= a.width || !a.dx) continue;
      const Floats<kVec> dy = to_floats(in.dy[c]);
      Floats<kVec> dx;
#pragma unroll
      for (int i = 0; i < kVec; ++i) {
        const float x_hat = (in.x[c].e[i] - in.mean) * in.rstd;
        dx.v[i] = in.rstd * (dy.v[i] * gamma[c].v[i] - mean_g - x_hat * mean_gx) + in.residual[c].e[i];
      }
      store_floats(a.dx + row * a.width + column, dx);
      if (a.dx_typed) store_floats(static_cast<Dx*>(a.dx_typed) + row * a.width + column, dx);
    }
  }
  float* const gamma_sums = partials + blockIdx.x * a.width;
  float* const beta_sums = partials + (gridDim.x + blockIdx.x) * a.width;
  if constexpr (kRows == 1) {
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      if (column_of(c) >= a.width) continue;
      store_floats(gamma_sums + column_of(c), dgamma[c]);
      store_floats(beta_sums + column_of(c), dbeta[c]);
    }
  } else {
    constexpr int kColumns = kRowThreads * kChunks * kVec;
    __shared__ float sums[2][kRows][kColumns];
#pragma unroll
    for (int c = 0; c < kChunks; ++c)
#pragma unroll
      for (int i = 0; i < kVec; ++i) {
        sums[0][row_of_block][column_of(c) + i] = dgamma[c].v[i];
        sums[1][row_of_block][column_of(c) + i] = dbeta[c].v[i];
      }
    __syncthreads();
    for (int i = threadIdx.x; i < 2 * kColumns; i += kBlockThreads<kRowThreads>) {
      const int column = i % kColumns, which = i / kColumns;
      if (column >= a.width) continue;
      float total = 0;
#pragma unroll
      for (int r = 0; r < kRows; ++r) total += sums[which][r][column];
      (which == 0 ? gamma_sums : beta_sums)[column] = total;
    }
  }
}

template <class D, int kVec>
__global__ void __launch_bounds__(kThreads) residual_add_kernel(ResidualAdd a) {
  let_successor_start();
  wait_for_predecessor();
  for (int64_t i = thread_index() * kVec; i < a.count; i += thread_count() * kVec) {
    Floats<kVec> x = load_floats<kVec>(a.x + i);
    const Floats<kVec> delta = load_floats<kVec>(static_cast<const D*>(a.delta) + i);
#pragma unroll
    for (int j = 0; j < kVec; ++j) x.v[j] += delta.v[j];
    store_floats(a.y + i, x);
  }
}

void check_width(int64_t width) {
  if (width <= kMostNormWidth) return;
  throw Error(Cause::usage, "layer normalisation of " + std::to_string(width) + " columns on a GPU",
              "a model of width " + std::to_string(kMostNormWidth) + " or less");
}

bool all_aligned(std::initializer_list<const void*> pointers) {
  return std::all_of(pointers.begin(), pointers.end(), aligned16);
}

template <class Dy, class Dx, int kRowThreads, int kChunks, int kVec>
unsigned launch_gradient(const KernelLaunch& launch, const LayerNormBackward& a, float* partials) {
  constexpr int kRows = kBlockThreads<kRowThreads> / kRowThreads;
  const unsigned blocks =
      std::min(num_blocks(a.rows, kRows), static_cast<unsigned>(kBlocksPerSm<kRowThreads> * launch.num_sms));
  launch_early(launch, blocks, kBlockThreads<kRowThreads>,
               layer_norm_gradient_kernel<Dy, Dx, kRowThreads, kChunks, kVec>, "layer_norm_gradient_kernel", a,
               partials);
  return blocks;
}

}  // namespace

void launch_layer_norm(const KernelLaunch& launch, const LayerNormForward& a) {
  check_width(a.width);
  if (a.rows * a.width == 0) return;
  const bool vector = a.width % kGroup == 0 && all_aligned({a.x, a.delta, a.sum, a.gamma, a.beta, a.y});
  const bool narrow = a.width <= 1024;  // a warp per row, else a block
  with_element_types(a.delta ? a.type : a.y_type, a.y ? a.y_type : a.type, [&](auto delta, auto y) {
    using D = typename decltype(delta)::type;
    using Y = typename decltype(y)::type;
    auto* kernel =
        narrow ? (vector ? layer_norm_kernel<D, Y, kWarp, 4, kGroup> : layer_norm_kernel<D, Y, kWarp, 32, 1>)
               : (vector ? layer_norm_kernel<D, Y, kThreads, 4, kGroup> : layer_norm_kernel<D, Y, kThreads, 32, 1>);
    launch_early(launch, num_blocks(a.rows, narrow ? kThreads / kWarp : 1), kThreads, kernel, "layer_norm_kernel", a);
  });
}

void launch_layer_norm_gradient(const KernelLaunch& launch, const GemmWorkspace& workspace,
                                const LayerNormBackward& a) {
  check_width(a.width);
  if (a.width == 0) return;
  const bool vector =
      a.width % kGroup == 0 && all_aligned({a.dy, a.x, a.gamma, a.d_residual, a.dx, a.dx_typed}) && a.rows > 0;
  float* partials = static_cast<float*>(workspace.data);
  unsigned blocks = 0;
  if (a.rows > 0)
    with_element_types(a.dy_type, a.dx_typed ? a.type : a.dy_type, [&](auto dy, auto dx) {
      using Dy = typename decltype(dy)::type;
      using Dx = typename decltype(dx)::type;
      if (vector)
        blocks = a.width <= 256    ? launch_gradient<Dy, Dx, kWarp, 1, kGroup>(launch, a, partials)
                 : a.width <= 1024 ? launch_gradient<Dy, Dx, 128, 1, kGroup>(launch, a, partials)
                 : a.width <= 4096 ? launch_gradient<Dy, Dx, 512, 1, kGroup>(launch, a, partials)
                                   : launch_gradient<Dy, Dx, 1024, 1, kGroup>(launch, a, partials);
      else
        blocks = a.width <= 2048 ? launch_gradient<Dy, Dx, 256, 8, 1>(launch, a, partials)
                                 : launch_gradient<Dy, Dx, 1024, 8, 1>(launch, a, partials);
    });
  // dbeta is the second matrix of the sums; both are arrays of one parameter buffer or of two.
  const int64_t distance = a.dbeta ? (reinterpret_cast<intptr_t>(a.dbeta) - reinterpret_cast<intptr_t>(a.dgamma)) /
                                         static_cast<intptr_t>(sizeof(float))
                                   : 0;
  launch_column_finish(launch, {.partials = partials,
                                .out = a.dgamma,
                                .parts = blocks,
                                .width = a.width,
                                .batches = a.dbeta ? 2 : 1,
                                .out_stride = distance,
                                .accumulate = a.accumulate});
}

void launch_residual_add(const KernelLaunch& launch, const ResidualAdd& a) {
  if (a.count == 0) return;
  const bool vector = a.count % kGroup == 0 && all_aligned({a.x, a.delta, a.y});
  with_element_type(a.type, [&](auto delta) {
    using D = typename decltype(delta)::type;
    auto* kernel = vector ? residual_add_kernel<D, kGroup> : residual_add_kernel<D, 1>;
    launch_early(launch, streaming_blocks(launch, a.count / (vector ? kGroup : 1)), kThreads, kernel,
                 "residual_add_kernel", a);
  });
}

}  // namespace amdahl
