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
  const float factor = 2.0f * a.scale;
  for (int64_t i = 0; i < count; ++i) {
    const float difference = a.prediction[i] - a.target[i];
    loss += static_cast<double>(difference) * difference;
    a.d_prediction[i] = factor * difference;
  }
  const float scaled = static_cast<float>(loss * static_cast<double>(a.scale));
  a.stats[0] = a.accumulate ? a.stats[0] + scaled : scaled;
  if (!a.accumulate) a.stats[1] = 0.0f;
}

void adam_step(const AdamStep& a, uint64_t step) {
  const double t = static_cast<double>(step) + 1.0;
  const float correction1 = static_cast<float>(1.0 / (1.0 - pow(static_cast<double>(a.beta1), t)));
  const float correction2 = static_cast<float>(1.0 / (1.0 - pow(static_cast<double>(a.beta2), t)));
  const float beta1 = a.beta1, beta2 = a.beta2, epsilon = a.epsilon, lr = a.lr * correction1;
  float* __restrict params = a.params;
  float* __restrict m = a.m;
  float* __restrict v = a.v;
  const float* __restrict grads = a.grads;
  for (int64_t i = 0; i < a.n; ++i) {
    const float g = grads[i];
    m[i] = beta1 * m[i] + (1.0f - beta1) * g;
    v[i] = beta2 * v[i] + (1.0f - beta2) * g * g;
    params[i] -= lr * m[i] / (sqrtf(v[i] * correction2) + epsilon);
  }
}

void sgd_step(const SgdStep& a) {
  float* __restrict params = a.params;
  float* __restrict velocity = a.velocity;
  const float* __restrict grads = a.grads;
  for (int64_t i = 0; i < a.n; ++i) {
    velocity[i] = a.momentum * velocity[i] + grads[i];
    params[i] -= a.lr * velocity[i];
  }
}

}  // namespace

const CpuKernels AMDAHL_CPU_KERNELS{finish_forward, mask_and_column_sums, column_sums, mse_loss, adam_step, sgd_step};

}  // namespace amdahl
