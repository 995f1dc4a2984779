// Batch normalisation with ReLU and residual: one pass for the statistics or the sums of gradients, one for the values.
#include "ops/conv/cuda_conv.h"
#include "ops/cuda_channels.cuh"

namespace amdahl {
namespace {

constexpr int kForwardUnroll = 4, kBackwardUnroll = 2;  // rows in flight per thread; backward reads more of each

/// Mean and sum of squared distances of a channel, from those of `parts` parts: relative to the mean of the first part
/// nothing cancels.
__device__ __forceinline__ double2 combined(const double (&sums)[3], double first_mean, double count) {
  const double shift = sums[0] / count;
  return make_double2(first_mean + shift, fmax(sums[2] + sums[1] - sums[0] * shift, 0.0));
}

__device__ __forceinline__ void finish_statistics(const BatchNormForward& a, int64_t channel, double mean,
                                                  double squares) {
  const double count = static_cast<double>(a.count), momentum = a.momentum;
  a.mean[channel] = static_cast<float>(mean);
  a.rstd[channel] = static_cast<float>(1.0 / sqrt(squares / count + a.epsilon));
  const double unbiased = squares / fmax(count - 1.0, 1.0);
  a.running_mean[channel] = static_cast<float>((1.0 - momentum) * a.running_mean[channel] + momentum * mean);
  a.running_variance[channel] =
      static_cast<float>((1.0 - momentum) * a.running_variance[channel] + momentum * unbiased);
}

// A thread sums around its first value, so that a large mean costs no accuracy; x is read once.
template <class X, int kVec>
__global__ void __launch_bounds__(kThreads, 2) batch_norm_statistics_kernel(BatchNormForward a, ChannelGrid g) {
  __shared__ float2 moments[kThreads * kVec];  // [row lanes, columns]: mean, sum of squared distances
  let_successor_start();
  wait_for_predecessor();
  const int columns = g.lanes * kVec;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * columns, column = first + g.lane() * kVec;
  const int64_t own_rows = g.rows_of_lane(g.row_lane());
  if (column < a.channels && own_rows > 0) {
    const X* x = static_cast<const X*>(a.x) + column;
    const Floats<kVec> centre = load_floats<kVec>(x + g.first_row(g.row_lane()) * a.channels);
    Floats<kVec> sum = {}, squares = {};
    Elements<X, kVec> loaded[kForwardUnroll];
    for_each_row<kForwardUnroll>(
        g, [&](int64_t row, int i) { loaded[i] = load_elements<kVec>(x + row * a.channels); },
        [&](int64_t, int i) {
          const Floats<kVec> value = to_floats(loaded[i]);
#pragma unroll
          for (int k = 0; k < kVec; ++k) {
            const float d = value.v[k] - centre.v[k];
            sum.v[k] += d, squares.v[k] += d * d;
          }
        });
#pragma unroll
    for (int k = 0; k < kVec; ++k) {
      const float shift = sum.v[k] / static_cast<float>(own_rows);
      moments[g.row_lane() * columns + g.lane() * kVec + k] =
          make_float2(centre.v[k] + shift, squares.v[k] - sum.v[k] * shift);
    }
  }
  __syncthreads();
  // From here a thread below `columns` has one channel.
  const int64_t own = first + threadIdx.x % columns;
  const bool has_own = static_cast<int>(threadIdx.x) < columns && own < a.channels;
  double mean = 0, squares = 0;
  if (has_own) {
    const double first_mean = moments[threadIdx.x].x;
    double sums[3] = {};
    for (int r = 0; r < g.row_lanes() && g.rows_of_lane(r) > 0; ++r) {
      const float2 part = moments[r * columns + threadIdx.x];
      const double rows = static_cast<double>(g.rows_of_lane(r)), d = part.x - first_mean;
      sums[0] += rows * d, sums[1] += rows * d * d, sums[2] += part.y;
    }
    const double2 both = combined(sums, first_mean, static_cast<double>(g.rows_of(blockIdx.y)));
    mean = both.x, squares = both.y;
  }
  if (!has_own) return;
  if (gridDim.y > 1)
    g.partials[blockIdx.y * a.channels + own] = make_float2(static_cast<float>(mean), static_cast<float>(squares));
  else
    finish_statistics(a, own, mean, squares);
}

// Several parts: a warp per channel, a lane per part.
__global__ void __launch_bounds__(kThreads) finish_statistics_kernel(BatchNormForward a, ChannelGrid g) {
  let_successor_start();
  wait_for_predecessor();
  const int64_t channel = thread_index() / kWarp;
  if (channel >= a.channels) return;
  const double first_mean = __ldcg(&g.partials[channel]).x;
  double sums[3] = {};
#pragma unroll 4
  for (int part = static_cast<int>(threadIdx.x) % kWarp; part < g.parts; part += kWarp) {
    const float2 value = __ldcg(&g.partials[part * a.channels + channel]);
    const double rows = static_cast<double>(g.rows_of(part)), d = value.x - first_mean;
    sums[0] += rows * d, sums[1] += rows * d * d, sums[2] += value.y;
  }
#pragma unroll
  for (double& sum : sums) sum = warp_sum(sum);
  if (threadIdx.x % kWarp > 0) return;
  const double2 both = combined(sums, first_mean, static_cast<double>(a.count));
  finish_statistics(a, channel, both.x, both.y);
}

template <class X, class Y, int kVec>
__global__ void __launch_bounds__(kThreads, 2) batch_norm_kernel(BatchNormForward a, ChannelGrid g) {
  let_successor_start();
  wait_for_predecessor();
  const int64_t column = (static_cast<int64_t>(blockIdx.x) * g.lanes + g.lane()) * kVec;
  if (column >= a.channels) return;
  const Floats<kVec> mean = load_floats<kVec>((a.training ? a.mean : a.running_mean) + column);
  const Floats<kVec> beta = load_floats<kVec>(a.beta + column);
  Floats<kVec> scale = load_floats<kVec>(a.gamma + column);
  const Floats<kVec> spread = load_floats<kVec>((a.training ? a.rstd : a.running_variance) + column);
#pragma unroll
  for (int k = 0; k < kVec; ++k) scale.v[k] *= a.training ? spread.v[k] : 1.0f / sqrtf(spread.v[k] + a.epsilon);
  const X* x = static_cast<const X*>(a.x) + column;
  const Y* residual = a.residual ? static_cast<const Y*>(a.residual) + column : nullptr;
  Y* y = static_cast<Y*>(a.y) + column;
  Elements<X, kVec> loaded[kForwardUnroll];
  Elements<Y, kVec> others[kForwardUnroll];
  for_each_row<kForwardUnroll>(
      g,
      [&](int64_t row, int i) {
        loaded[i] = load_elements<kVec>(x + row * a.channels);
        if (residual) others[i] = load_elements<kVec>(residual + row * a.channels);
      },
      [&](int64_t row, int i) {
        Floats<kVec> value = to_floats(loaded[i]);
#pragma unroll
        for (int k = 0; k < kVec; ++k) value.v[k] = (value.v[k] - mean.v[k]) * scale.v[k] + beta.v[k];
        if (residual) {
          const Floats<kVec> other = to_floats(others[i]);
#pragma unroll
          for (int k = 0; k < kVec; ++k) value.v[k] += other.v[k];
        }
        if (a.relu)
#pragma unroll
          for (int k = 0; k < kVec; ++k) value.v[k] = value.v[k] < 0.0f ? 0.0f : value.v[k];  // NaN stays NaN
        store_floats(y + row * a.channels, value);
      });
}

/// Of kVec channels: what forward multiplied x - mean by, and added.
template <int kVec>
struct ChannelValues {
  Floats<kVec> mean, scale, beta;

  __device__ __forceinline__ ChannelValues(const BatchNormBackward& a, int64_t column) {
    mean = load_floats<kVec>(a.mean + column), scale = load_floats<kVec>(a.gamma + column);
    const Floats<kVec> rstd = load_floats<kVec>(a.rstd + column);
#pragma unroll
    for (int k = 0; k < kVec; ++k) scale.v[k] *= rstd.v[k], beta.v[k] = 0.0f;
    if (a.beta) beta = load_floats<kVec>(a.beta + column);
  }
};

/// What backward reads of a row, and the gradient that passes the ReLU.
template <class X, class Y, int kVec>
struct GradientRow {
  Elements<X, kVec> x;
  Elements<Y, kVec> y, dy, added;

  __device__ __forceinline__ void load(const BatchNormBackward& a, int64_t at) {
    x = load_elements<kVec>(static_cast<const X*>(a.x) + at);
    dy = load_elements<kVec>(static_cast<const Y*>(a.dy) + at);
    if (a.relu && a.y) y = load_elements<kVec>(static_cast<const Y*>(a.y) + at);
    if (a.dy_added) added = load_elements<kVec>(static_cast<const Y*>(a.dy_added) + at);
  }
  __device__ __forceinline__ Floats<kVec> passed(const BatchNormBackward& a, const ChannelValues<kVec>& c) const {
    Floats<kVec> d = to_floats(dy);
    if (a.dy_added) {
      const Floats<kVec> other = to_floats(added);
#pragma unroll
      for (int k = 0; k < kVec; ++k) d.v[k] = to_float(to_element<Y>(d.v[k] + other.v[k]));  // as it is stored
    }
    if (!a.relu) return d;
    Floats<kVec> output;
    if (a.y) {
      output = to_floats(y);
    } else {
      output = to_floats(x);
#pragma unroll
      for (int k = 0; k < kVec; ++k) output.v[k] = (output.v[k] - c.mean.v[k]) * c.scale.v[k] + c.beta.v[k];
    }
#pragma unroll
    for (int k = 0; k < kVec; ++k) d.v[k] = output.v[k] > 0.0f ? d.v[k] : 0.0f;
    return d;
  }
};

__device__ __forceinline__ void finish_sums(const BatchNormBackward& a, int64_t channel, double sum, double weighted,
                                            float2* sums_out) {
  sums_out[channel] = make_float2(static_cast<float>(sum), static_cast<float>(weighted));
  a.dbeta[channel] = static_cast<float>(sum) + (a.accumulate ? a.dbeta[channel] : 0.0f);
  a.dgamma[channel] = static_cast<float>(weighted * a.rstd[channel]) + (a.accumulate ? a.dgamma[channel] : 0.0f);
}

/// Per channel the sum of the gradient and of its product with x - mean: into `sums` [channels] for the next kernel,
/// and as the gradients of beta and gamma. Stores the gradient that passes the ReLU where that is wanted.
template <class X, class Y, int kVec>
__global__ void __launch_bounds__(kThreads, 2)
    batch_norm_sums_kernel(BatchNormBackward a, ChannelGrid g, float2* sums_out) {
  __shared__ float2 lane_sums[kThreads * kVec];  // [row lanes, columns]
  let_successor_start();
  wait_for_predecessor();
  const int columns = g.lanes * kVec;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * columns, column = first + g.lane() * kVec;
  if (column < a.channels) {
    const ChannelValues<kVec> c(a, column);
    Floats<kVec> sum = {}, weighted = {};
    GradientRow<X, Y, kVec> rows[kBackwardUnroll];
    for_each_row<kBackwardUnroll>(
        g, [&](int64_t row, int i) { rows[i].load(a, row * a.channels + column); },
        [&](int64_t row, int i) {
          const Floats<kVec> d = rows[i].passed(a, c), x = to_floats(rows[i].x);
          if (a.passed) store_floats(static_cast<Y*>(a.passed) + row * a.channels + column, d);
#pragma unroll
          for (int k = 0; k < kVec; ++k) sum.v[k] += d.v[k], weighted.v[k] += d.v[k] * (x.v[k] - c.mean.v[k]);
        });
#pragma unroll
    for (int k = 0; k < kVec; ++k)
      lane_sums[g.row_lane() * columns + g.lane() * kVec + k] = make_float2(sum.v[k], weighted.v[k]);
  }
  __syncthreads();
  const int64_t own = first + threadIdx.x % columns;
  const bool in_range = own < a.channels, has_own = static_cast<int>(threadIdx.x) < columns && in_range;
  double sums[2] = {};
  if (has_own)
    for (int r = 0; r < g.row_lanes(); ++r) {
      const float2 part = lane_sums[r * columns + threadIdx.x];
      sums[0] += part.x, sums[1] += part.y;
    }
  if (!has_own) return;
  if (gridDim.y > 1)
    g.partials[blockIdx.y * a.channels + own] = make_float2(static_cast<float>(sums[0]), static_cast<float>(sums[1]));
  else
    finish_sums(a, own, sums[0], sums[1], sums_out);
}

// Several parts: a warp per channel, a lane per part.
__global__ void __launch_bounds__(kThreads) finish_sums_kernel(BatchNormBackward a, ChannelGrid g, float2* sums_out) {
  let_successor_start();
  wait_for_predecessor();
  const int64_t channel = thread_index() / kWarp;
  if (channel >= a.channels) return;
  double sum = 0, weighted = 0;
#pragma unroll 4
  for (int part = static_cast<int>(threadIdx.x) % kWarp; part < g.parts; part += kWarp) {
    const float2 value = __ldcg(&g.partials[part * a.channels + channel]);
    sum += value.x, weighted += value.y;
  }
  sum = warp_sum(sum), weighted = warp_sum(weighted);
  if (threadIdx.x % kWarp == 0) finish_sums(a, channel, sum, weighted, sums_out);
}

// dx = scale (d - mean of d - (x - mean) slope)
template <class X, class Y, int kVec>
__global__ void __launch_bounds__(kThreads, 2)
    batch_norm_gradient_kernel(BatchNormBackward a, ChannelGrid g, const float2* sums) {
  let_successor_start();
  wait_for_predecessor();
  const int64_t column = (static_cast<int64_t>(blockIdx.x) * g.lanes + g.lane()) * kVec;
  if (column >= a.channels) return;
  const ChannelValues<kVec> c(a, column);
  const Floats<kVec> rstd = load_floats<kVec>(a.rstd + column);
  Floats<kVec> mean_d, slope;
  const float share = 1.0f / static_cast<float>(a.count);
#pragma unroll
  for (int k = 0; k < kVec; ++k) {
    const float2 sum = sums[column + k];
    mean_d.v[k] = sum.x * share;
    slope.v[k] = sum.y * share * rstd.v[k] * rstd.v[k];
  }
  GradientRow<X, Y, kVec> rows[kBackwardUnroll];
  for_each_row<kBackwardUnroll>(
      g, [&](int64_t row, int i) { rows[i].load(a, row * a.channels + column); },
      [&](int64_t row, int i) {
        const int64_t at = row * a.channels + column;
        const Floats<kVec> d = rows[i].passed(a, c), x = to_floats(rows[i].x);
        Floats<kVec> dx;
#pragma unroll
        for (int k = 0; k < kVec; ++k)
          dx.v[k] = (d.v[k] - mean_d.v[k] - (x.v[k] - c.mean.v[k]) * slope.v[k]) * c.scale.v[k];
        store_floats(static_cast<X*>(a.dx) + at, dx);
      });
}

/// Calls use(ElementType<X>{}, ElementType<Y>{}) where Y is X or f32.
template <class Use>
void with_norm_types(DType type, DType y_type, const Use& use) {
  with_element_type(type, [&](auto x) {
    if (y_type == type) return use(x, x);
    if (y_type == DType::f32) return use(x, ElementType<float>{});
    throw Error(Cause::internal, "batch normalisation between elements of " + std::string(to_string(type)) + " and " +
                                     std::string(to_string(y_type)));
  });
}

constexpr int kVector = 8;  // channels per access: 16 bytes of a 16-bit type

bool in_vectors(int64_t channels, std::initializer_list<const void*> pointers) {
  return channels % kVector == 0 && std::all_of(pointers.begin(), pointers.end(), aligned16);
}

template <class X, class Y, int kVec>
void launch_forward(const KernelLaunch& launch, const BatchNormForward& a) {
  if (a.training) {
    const ChannelGrid g = channel_grid<kVec>(launch, a.count, a.channels, true);
    launch_early_shared(launch, shape_of<kVec>(g), batch_norm_statistics_kernel<X, kVec>,
                        "batch_norm_statistics_kernel", a, g);
    if (g.parts > 1)
      launch_early(launch, num_blocks(a.channels, kThreads / kWarp), kThreads, finish_statistics_kernel,
                   "finish_statistics_kernel", a, g);
  }
  const ChannelGrid g = channel_grid<kVec>(launch, a.count, a.channels, false);
  launch_early_shared(launch, shape_of<kVec>(g), batch_norm_kernel<X, Y, kVec>, "batch_norm_kernel", a, g);
}

template <class X, class Y, int kVec>
void launch_backward(const KernelLaunch& launch, const BatchNormBackward& a) {
  auto* sums = reinterpret_cast<float2*>(launch.scratch.temp);
  const ChannelGrid summing = channel_grid<kVec>(launch, a.count, a.channels, true);
  launch_early_shared(launch, shape_of<kVec>(summing), batch_norm_sums_kernel<X, Y, kVec>, "batch_norm_sums_kernel", a,
                      summing, sums);
  if (summing.parts > 1)
    launch_early(launch, num_blocks(a.channels, kThreads / kWarp), kThreads, finish_sums_kernel, "finish_sums_kernel",
                 a, summing, sums);
  BatchNormBackward last = a;
  if (a.passed) last.dy = a.passed, last.dy_added = nullptr, last.relu = false;
  const ChannelGrid g = channel_grid<kVec>(launch, a.count, a.channels, false);
  launch_early_shared(launch, shape_of<kVec>(g), batch_norm_gradient_kernel<X, Y, kVec>, "batch_norm_gradient_kernel",
                      last, g, static_cast<const float2*>(sums));
}

}  // namespace

void launch_batch_norm(const KernelLaunch& launch, const BatchNormForward& a) {
  if (a.count == 0 || a.channels == 0) return;
  const bool vectors = in_vectors(
      a.channels, {a.x, a.residual, a.y, a.gamma, a.beta, a.running_mean, a.running_variance, a.mean, a.rstd});
  with_norm_types(a.type, a.y_type, [&](auto x, auto y) {
    using X = typename decltype(x)::type;
    using Y = typename decltype(y)::type;
    vectors ? launch_forward<X, Y, kVector>(launch, a) : launch_forward<X, Y, 1>(launch, a);
  });
}

void launch_batch_norm_gradient(const KernelLaunch& launch, const BatchNormBackward& a) {
  if (a.count == 0 || a.channels == 0) return;
  if (2 * a.channels > KernelScratch::kTempFloats)
    throw Error(Cause::usage, "batch normalisation of " + std::to_string(a.channels) + " channels on a GPU",
                "at most " + std::to_string(KernelScratch::kTempFloats / 2) + " channels");
  const bool vectors = in_vectors(
      a.channels, {a.x, a.y, a.dy, a.dy_added, a.gamma, a.beta, a.mean, a.rstd, a.dx, a.passed, launch.scratch.temp});
  with_norm_types(a.type, a.y_type, [&](auto x, auto y) {
    using X = typename decltype(x)::type;
    using Y = typename decltype(y)::type;
    vectors ? launch_backward<X, Y, kVector>(launch, a) : launch_backward<X, Y, 1>(launch, a);
  });
}

}  // namespace amdahl
