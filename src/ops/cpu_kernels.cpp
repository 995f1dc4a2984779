// Compiled twice: AMDAHL_CPU_KERNELS names the table, the build sets the instruction set. Only plain loops over plain
// arrays: a standard-library template instantiated here with AVX2 could be picked by the linker for every caller.
#include "ops/cpu_kernels.h"

#include <math.h>
#include <stddef.h>

#include "base/philox.h"
#include "ops/cpu_philox.h"

namespace amdahl {
namespace {

inline void add_bias_and_relu(float* __restrict y, const float* __restrict bias, int64_t width, bool relu) {
  if (bias && relu) {
    for (int64_t c = 0; c < width; ++c) y[c] = y[c] + bias[c] > 0.0f ? y[c] + bias[c] : 0.0f;
  } else if (bias) {
    for (int64_t c = 0; c < width; ++c) y[c] += bias[c];
  } else if (relu) {
    for (int64_t c = 0; c < width; ++c) y[c] = y[c] > 0.0f ? y[c] : 0.0f;
  }
}

inline void drop(float* __restrict y, const uint32_t* __restrict bits, int64_t count, uint32_t threshold, float scale) {
  for (int64_t c = 0; c < count; ++c) {
    const float scaled = y[c] * scale;
    y[c] = bits[c] < threshold ? scaled : 0.0f;
  }
}

void finish_forward(const DenseForward& a, uint64_t step) {
  const uint32_t threshold = dropout_keep_threshold(a.dropout.p);
  const float scale = static_cast<float>(1.0 / (1.0 - a.dropout.p));
  for (int64_t row = 0; row < a.batch; ++row) {
    float* __restrict y = a.y + row * a.out;
    add_bias_and_relu(y, a.bias, a.out, a.relu);
    if (!(a.dropout.p > 0)) continue;
    const uint32_t global_row = static_cast<uint32_t>(a.dropout.row_offset + row);
    for (int64_t first = 0; first < a.out; first += kDrawColumns) {
      uint32_t bits[kDrawColumns];
      AMDAHL_CPU_PHILOX::draw_columns(a.dropout, static_cast<uint32_t>((a.dropout.column_offset + first) / 4),
                                      global_row, static_cast<uint32_t>(step), bits);
      const int64_t count = a.out - first < kDrawColumns ? a.out - first : kDrawColumns;
      drop(y + first, bits, count, threshold, scale);
    }
  }
}

inline void add_row(float* __restrict sums, const float* __restrict line, int64_t width) {
  for (int64_t c = 0; c < width; ++c) sums[c] += line[c];
}

void column_sums(const float* matrix, float* sums, int64_t rows, int64_t columns, int64_t stride, bool accumulate) {
  if (!accumulate)
    for (int64_t c = 0; c < columns; ++c) sums[c] = 0.0f;
  for (int64_t r = 0; r < rows; ++r) add_row(sums, matrix + r * stride, columns);
}

// All arguments are locals: the compiler vectorises only if it knows that no store changes the scale.
inline void mask_row(float* __restrict dx, const float* __restrict activation, float scale, int64_t width) {
  for (int64_t c = 0; c < width; ++c) {
    const float scaled = scale * dx[c];
    dx[c] = activation[c] != 0.0f ? scaled : 0.0f;
  }
}

inline void mask_and_add_row(float* __restrict dx, const float* __restrict activation, float* __restrict sums,
                             float scale, int64_t width) {
  for (int64_t c = 0; c < width; ++c) {
    const float scaled = scale * dx[c];
    const float masked = activation[c] != 0.0f ? scaled : 0.0f;
    dx[c] = masked;
    sums[c] += masked;
  }
}

void mask_and_column_sums(const DenseBackwardInput& a) {
  const int64_t rows = a.batch, width = a.in;
  const float scale = a.scale;
  if (a.activation) {
    if (a.dbias && !a.accumulate)
      for (int64_t c = 0; c < width; ++c) a.dbias[c] = 0.0f;
    for (int64_t r = 0; r < rows; ++r) {
      if (a.dbias)
        mask_and_add_row(a.dx + r * width, a.activation + r * width, a.dbias, scale, width);
      else
        mask_row(a.dx + r * width, a.activation + r * width, scale, width);
    }
    return;
  }
  if (scale != 1.0f)
    for (int64_t i = 0; i < rows * width; ++i) a.dx[i] *= scale;
  if (a.dbias) column_sums(a.dx, a.dbias, rows, width, width, a.accumulate);
}

void mse_loss(const MseLoss& a) {
  double loss = 0.0;
  const int64_t count = a.batch * a.out;
  const float factor = 2.0f * a.scale * (a.gradient_scale ? *a.gradient_scale : 1.0f);
  for (int64_t i = 0; i < count; ++i) {
    const float difference = a.prediction[i] - a.target[i];
    loss += static_cast<double>(difference) * difference;
    a.d_prediction[i] = factor * difference;
  }
  const float scaled = static_cast<float>(loss * static_cast<double>(a.scale));
  a.stats[0] = a.accumulate ? a.stats[0] + scaled : scaled;
  if (!a.accumulate) a.stats[1] = 0.0f;
}

inline uint32_t bits_of(float value) {
  uint32_t bits;
  __builtin_memcpy(&bits, &value, sizeof bits);
  return bits;
}

/// Updates of other ranges may run at the same time.
void add_changes(const ChangeSums& to, const uint32_t* changes, int count) {
  for (int i = 0; to.sums && i < count; ++i) __atomic_fetch_add(&to.sums[i], changes[i], __ATOMIC_RELAXED);
}

struct AdamFactors {
  float beta1, beta2, epsilon, rate, correction2, scale;
};

/// `keep`: what decay leaves of a parameter.
void adam_run(const AdamStep& a, int64_t begin, int64_t end, const AdamFactors& f, float keep) {
  const float beta1 = f.beta1, beta2 = f.beta2, epsilon = f.epsilon, lr = f.rate, correction2 = f.correction2;
  const float scale = f.scale;
  float* __restrict params = a.params;
  float* __restrict m = a.m;
  float* __restrict v = a.v;
  const float* __restrict grads = a.grads;
  uint32_t changes[3] = {};
  for (int64_t i = begin; i < end; ++i) {
    const float g = scale * grads[i];
    const float m0 = m[i], v0 = v[i], p0 = params[i];
    m[i] = beta1 * m0 + (1.0f - beta1) * g;
    v[i] = beta2 * v0 + (1.0f - beta2) * g * g;
    params[i] = keep * p0 - lr * m[i] / (sqrtf(v[i] * correction2) + epsilon);
    changes[0] += bits_of(params[i]) - bits_of(p0);
    changes[1] += bits_of(m[i]) - bits_of(m0);
    changes[2] += bits_of(v[i]) - bits_of(v0);
  }
  add_changes(a.changes, changes, 3);
}

inline bool decays_at(const AdamStep& a, int64_t i) {
  return a.weight_decay != 0.0f && (!a.decays || a.decays[(a.first + i) / kDecayLine] != 0);
}

/// The end of the run of parameters from `begin` on that all decay, or that all do not.
inline int64_t end_of_run(const AdamStep& a, int64_t begin) {
  if (a.weight_decay == 0.0f || !a.decays) return a.n;
  const bool decays = decays_at(a, begin);
  int64_t end = ((a.first + begin) / kDecayLine + 1) * kDecayLine - a.first;
  while (end < a.n && decays_at(a, end) == decays) end += kDecayLine;
  return end < a.n ? end : a.n;
}

void adam_step(const AdamStep& a, uint64_t step) {
  const double t = static_cast<double>(step) + 1.0;
  const float correction1 = static_cast<float>(1.0 / (1.0 - pow(static_cast<double>(a.beta1), t)));
  const float correction2 = static_cast<float>(1.0 / (1.0 - pow(static_cast<double>(a.beta2), t)));
  const float rate = a.factors.rate ? *a.factors.rate : a.lr;
  const float scale = a.factors.grad_scale ? *a.factors.grad_scale : 1.0f;
  const AdamFactors factors{a.beta1, a.beta2, a.epsilon, rate * correction1, correction2, scale};
  for (int64_t begin = 0, end = 0; begin < a.n; begin = end) {
    end = end_of_run(a, begin);
    adam_run(a, begin, end, factors, decays_at(a, begin) ? 1.0f - rate * a.weight_decay : 1.0f);
  }
}

void sgd_step(const SgdStep& a) {
  const float lr = a.factors.rate ? *a.factors.rate : a.lr;
  const float scale = a.factors.grad_scale ? *a.factors.grad_scale : 1.0f, momentum = a.momentum;
  float* __restrict params = a.params;
  float* __restrict velocity = a.velocity;
  const float* __restrict grads = a.grads;
  uint32_t changes[2] = {};
  for (int64_t i = 0; i < a.n; ++i) {
    const float v0 = velocity[i], p0 = params[i];
    velocity[i] = momentum * v0 + scale * grads[i];
    params[i] = p0 - lr * velocity[i];
    changes[0] += bits_of(params[i]) - bits_of(p0);
    changes[1] += bits_of(velocity[i]) - bits_of(v0);
  }
  add_changes(a.changes, changes, 2);
}

double sum_of_squares(const float* values, int64_t n) {
  constexpr int64_t kSums = 16;  // independent sums, so that the loop is vectorised
  double sums[kSums] = {};
  int64_t i = 0;
  for (; i + kSums <= n; i += kSums)
    for (int64_t k = 0; k < kSums; ++k) {
      const double value = static_cast<double>(values[i + k]);
      sums[k] += value * value;
    }
  double total = 0;
  for (; i < n; ++i) total += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  for (const double sum : sums) total += sum;
  return total;
}

}  // namespace

const CpuKernels AMDAHL_CPU_KERNELS{finish_forward, mask_and_column_sums, column_sums, mse_loss, adam_step,
                                    sgd_step,       sum_of_squares};

}  // namespace amdahl
