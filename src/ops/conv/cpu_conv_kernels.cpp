// Compiled twice: AMDAHL_CPU_CONV_KERNELS names the table, the build sets the instruction set. As in cpu_kernels.cpp,
// nothing of the standard library is instantiated here.
#include "ops/conv/cpu_conv_kernels.h"

#include <math.h>

#include "ops/cpu_vector.h"

// Every function that a kernel calls becomes part of it: the bodies of its loops are lambdas.
#define AMDAHL_KERNEL __attribute__((flatten))

namespace amdahl {
namespace {

constexpr int64_t kChunkFloats = 8192;  // of x: what is read twice is still in the first or second cache

inline int64_t rows_of_a_chunk(int64_t channels) {
  const int64_t rows = kChunkFloats / channels;
  return rows < 8 ? 8 : rows;
}

inline void fill(float* values, float value, int64_t count) {
  for (int64_t i = 0; i < count; ++i) values[i] = value;
}

/// Mean of each channel into sums[0], sum of squared distances into sums[1]. A chunk is summed in f32 around the mean
/// of the chunks before it, the first one around its first row, and combined in f64: neither a large mean nor a large
/// count costs accuracy.
inline void moments(const BatchNormForward& a, const BatchNormWork& work) {
  const auto* all_x = static_cast<const float*>(a.x);
  double *mean = work.sums, *squares = mean + a.channels;
  float *sum = work.values, *square_sum = sum + a.channels, *centre = square_sum + a.channels;
  for (int64_t i = 0; i < a.channels; ++i) mean[i] = static_cast<double>(all_x[i]), squares[i] = 0.0;
  const int64_t step = rows_of_a_chunk(a.channels);
  for (int64_t first = 0; first < a.count; first += step) {
    const int64_t rows = a.count - first < step ? a.count - first : step;
    for (int64_t i = 0; i < a.channels; ++i) centre[i] = static_cast<float>(mean[i]);
    fill(sum, 0.0f, 2 * a.channels);
    for (int64_t r = first; r < first + rows; ++r) {
      const float* x = all_x + r * a.channels;
      for_each_vector(a.channels, [&](int64_t i, auto n) {
        const Lanes centred = load(x + i, n) - load(centre + i, n);
        store(sum + i, load(sum + i, n) + centred, n);
        store(square_sum + i, load(square_sum + i, n) + centred * centred, n);
      });
    }
    const double before = static_cast<double>(first), now = static_cast<double>(rows);
    const double share = now / (before + now), between = before * share;
    for (int64_t i = 0; i < a.channels; ++i) {
      const auto total = static_cast<double>(sum[i]);
      const double chunk_mean = static_cast<double>(centre[i]) + total / now, delta = chunk_mean - mean[i];
      mean[i] += delta * share;
      squares[i] += static_cast<double>(square_sum[i]) - total * total / now + delta * delta * between;
    }
  }
}

inline void statistics(const BatchNormForward& a, const BatchNormWork& work) {
  moments(a, work);
  const auto count = static_cast<double>(a.count);
  const double unbiased = a.count > 1 ? count - 1 : 1.0, momentum = static_cast<double>(a.momentum);
  for (int64_t i = 0; i < a.channels; ++i) {
    const double mean = work.sums[i], squares = work.sums[a.channels + i] > 0 ? work.sums[a.channels + i] : 0.0;
    a.mean[i] = static_cast<float>(mean);
    a.rstd[i] = static_cast<float>(1.0 / sqrt(squares / count + static_cast<double>(a.epsilon)));
    const auto toward = [&](float& running, double value) {
      running = static_cast<float>((1.0 - momentum) * static_cast<double>(running) + momentum * value);
    };
    toward(a.running_mean[i], mean);
    toward(a.running_variance[i], squares / unbiased);
  }
}

AMDAHL_KERNEL void batch_norm_forward(const BatchNormForward& a, const BatchNormWork& work) {
  const float* mean = a.training ? a.mean : a.running_mean;
  float* scale = work.values;
  if (a.training) statistics(a, work);
  for (int64_t i = 0; i < a.channels; ++i)
    scale[i] = a.gamma[i] * (a.training ? a.rstd[i] : 1.0f / sqrtf(a.running_variance[i] + a.epsilon));
  const auto* residual = static_cast<const float*>(a.residual);
  for (int64_t r = 0; r < a.count; ++r) {
    const float* x = static_cast<const float*>(a.x) + r * a.channels;
    const float* other = residual ? residual + r * a.channels : nullptr;
    float* y = static_cast<float*>(a.y) + r * a.channels;
    for_each_vector(a.channels, [&](int64_t i, auto n) {
      Lanes v = (load(x + i, n) - load(mean + i, n)) * load(scale + i, n) + load(a.beta + i, n);
      if (other) v += load(other + i, n);
      store(y + i, a.relu ? larger(v, Lanes{}) : v, n);
    });
  }
}

AMDAHL_KERNEL void batch_norm_backward(const BatchNormBackward& a, const BatchNormWork& work) {
  const auto *all_x = static_cast<const float*>(a.x), *all_dy = static_cast<const float*>(a.dy);
  const auto *all_y = static_cast<const float*>(a.y), *added = static_cast<const float*>(a.dy_added);
  auto* all_passed = static_cast<float*>(a.passed);
  float* scale = work.values + 2 * a.channels;
  for (int64_t i = 0; i < a.channels; ++i) scale[i] = a.gamma[i] * a.rstd[i];
  const auto passing = [&](int64_t at, int64_t i, auto n) {
    Lanes dy = load(all_dy + at, n);
    if (added) dy += load(added + at, n);
    if (!a.relu) return dy;
    const Lanes y = all_y ? load(all_y + at, n)
                          : (load(all_x + at, n) - load(a.mean + i, n)) * load(scale + i, n) + load(a.beta + i, n);
    return y > 0.0f ? dy : Lanes{};
  };
  // Sums of the gradient, and of the gradient times the centred x: chunks in f32, their sum in f64.
  double *total = work.sums, *weighted_total = total + a.channels;
  float *sum = work.values, *weighted = sum + a.channels;
  for (int64_t i = 0; i < 2 * a.channels; ++i) work.sums[i] = 0.0;
  const int64_t step = rows_of_a_chunk(a.channels);
  for (int64_t first = 0; first < a.count; first += step) {
    fill(sum, 0.0f, 2 * a.channels);
    for (int64_t r = first; r < first + step && r < a.count; ++r)
      for_each_vector(a.channels, [&](int64_t i, auto n) {
        const Lanes d = passing(r * a.channels + i, i, n);
        if (all_passed) store(all_passed + r * a.channels + i, d, n);
        const Lanes centred = load(all_x + r * a.channels + i, n) - load(a.mean + i, n);
        store(sum + i, load(sum + i, n) + d, n);
        store(weighted + i, load(weighted + i, n) + d * centred, n);
      });
    for (int64_t i = 0; i < 2 * a.channels; ++i) total[i] += static_cast<double>(sum[i]);
  }
  // dx = scale (d - mean of d - (x - mean) slope)
  float *mean_d = work.values, *slope = mean_d + a.channels;
  const double share = 1.0 / static_cast<double>(a.count);
  for (int64_t i = 0; i < a.channels; ++i) {
    const auto rstd = static_cast<double>(a.rstd[i]);
    const auto dbeta = static_cast<float>(total[i]), dgamma = static_cast<float>(weighted_total[i] * rstd);
    a.dbeta[i] = a.accumulate ? a.dbeta[i] + dbeta : dbeta;
    a.dgamma[i] = a.accumulate ? a.dgamma[i] + dgamma : dgamma;
    mean_d[i] = static_cast<float>(total[i] * share);
    slope[i] = static_cast<float>(weighted_total[i] * share * rstd * rstd);
  }
  auto* dx = static_cast<float*>(a.dx);
  for (int64_t r = 0; r < a.count; ++r)
    for_each_vector(a.channels, [&](int64_t i, auto n) {
      const int64_t at = r * a.channels + i;
      const Lanes d = all_passed ? load(all_passed + at, n) : passing(at, i, n);
      const Lanes centred = load(all_x + at, n) - load(a.mean + i, n);
      store(dx + at, (d - load(mean_d + i, n) - centred * load(slope + i, n)) * load(scale + i, n), n);
    });
}

AMDAHL_KERNEL void add(const float* from, float* to, int64_t count) {
  for_each_vector(count, [&](int64_t i, auto n) { store(to + i, load(to + i, n) + load(from + i, n), n); });
}

AMDAHL_KERNEL void average_pool(const float* x, float* y, int64_t rows, int64_t pixels, int64_t channels) {
  const float share = 1.0f / static_cast<float>(pixels);
  for (int64_t r = 0; r < rows; ++r)
    for_each_vector(channels, [&](int64_t i, auto n) {
      Lanes sum{};
      for (int64_t p = 0; p < pixels; ++p) sum += load(x + (r * pixels + p) * channels + i, n);
      store(y + r * channels + i, sum * share, n);
    });
}

AMDAHL_KERNEL void average_pool_gradient(const float* dy, float* dx, int64_t rows, int64_t pixels, int64_t channels) {
  const float share = 1.0f / static_cast<float>(pixels);
  for (int64_t r = 0; r < rows; ++r)
    for_each_vector(channels, [&](int64_t i, auto n) {
      const Lanes d = load(dy + r * channels + i, n) * share;
      for (int64_t p = 0; p < pixels; ++p) store(dx + (r * pixels + p) * channels + i, d, n);
    });
}

/// Calls use(output, first row, first column) for every window, in order: the place of its output in [rows, out_height,
/// out_width], and of its first pixel, which may lie in the padding.
template <class Use>
inline void for_each_window(const PoolWindows& w, const Use& use) {
  int64_t output = 0;
  for (int64_t r = 0; r < w.rows; ++r)
    for (int64_t i = 0; i < w.out_height(); ++i)
      for (int64_t j = 0; j < w.out_width(); ++j)
        use(r, output++, i * w.stride - w.padding(), j * w.stride - w.padding());
}

AMDAHL_KERNEL void max_pool(const MaxPoolForward& a) {
  const PoolWindows& w = a.windows;
  for_each_window(w, [&](int64_t r, int64_t output, int64_t first_row, int64_t first_column) {
    float* y = static_cast<float*>(a.y) + output * w.channels;
    uint8_t* chosen = a.chosen + output * w.channels;
    bool begun = false;
    for (int64_t k = 0; k < w.kernel * w.kernel; ++k) {
      const int64_t row = first_row + k / w.kernel, column = first_column + k % w.kernel;
      if (row < 0 || row >= w.height || column < 0 || column >= w.width) continue;
      const float* x = static_cast<const float*>(a.x) + ((r * w.height + row) * w.width + column) * w.channels;
      for (int64_t c = 0; c < w.channels; ++c)
        if (!begun || x[c] > y[c] || x[c] != x[c]) y[c] = x[c], chosen[c] = static_cast<uint8_t>(k);
      begun = true;
    }
  });
}

AMDAHL_KERNEL void max_pool_gradient(const MaxPoolBackward& a) {
  const PoolWindows& w = a.windows;
  auto* dx = static_cast<float*>(a.dx);
  const auto *dy = static_cast<const float*>(a.dy), *added = static_cast<const float*>(a.dy_added);
  fill(dx, 0.0f, w.inputs());
  for_each_window(w, [&](int64_t r, int64_t output, int64_t first_row, int64_t first_column) {
    for (int64_t c = 0; c < w.channels; ++c) {
      const int64_t from = output * w.channels + c;
      const int64_t row = first_row + a.chosen[from] / w.kernel, column = first_column + a.chosen[from] % w.kernel;
      dx[((r * w.height + row) * w.width + column) * w.channels + c] += added ? dy[from] + added[from] : dy[from];
    }
  });
}

}  // namespace

const CpuConvKernels AMDAHL_CPU_CONV_KERNELS{
    batch_norm_forward, batch_norm_backward, add, average_pool, average_pool_gradient, max_pool, max_pool_gradient};

}  // namespace amdahl
