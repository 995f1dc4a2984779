// Compiled twice: AMDAHL_CPU_KERNELS names the table, the build sets the instruction set. Plain loops over plain arrays
// only: a standard-library template instantiated here with AVX2 could be picked by the linker for every caller.
#include "ops/cpu_kernels.h"

#include <math.h>
#include <stddef.h>

#include "base/philox.h"
#include "ops/cpu_philox.h"

namespace amdahl {
namespace {

inline void add_bias(float* __restrict y, const float* __restrict bias, int64_t width, bool relu) {
  if (bias && relu) {
    for (int64_t c = 0; c < width; ++c) y[c] = y[c] + bias[c] > 0.0f ? y[c] + bias[c] : 0.0f;
  } else if (bias) {
    for (int64_t c = 0; c < width; ++c) y[c] += bias[c];
  } else if (relu) {
    for (int64_t c = 0; c < width; ++c) y[c] = y[c] > 0.0f ? y[c] : 0.0f;
  }
}

void finish_forward(const DenseForward& a, uint64_t step) {
  const uint32_t threshold = dropout_keep_threshold(a.dropout.p);
  const float scale = static_cast<float>(1.0 / (1.0 - a.dropout.p));
  for (int64_t row = 0; row < a.batch; ++row) {
    float* y = a.y + row * a.out;
    add_bias(y, a.bias, a.out, a.relu);
    if (!(a.dropout.p > 0)) continue;
    const uint32_t global_row = static_cast<uint32_t>(a.dropout.row_offset + row);
    for (int64_t first = 0; first < a.out; first += kDrawColumns) {
      uint32_t bits[kDrawColumns];
      AMDAHL_CPU_PHILOX::draw_columns(a.dropout, static_cast<uint32_t>(first / 4), global_row,
                                      static_cast<uint32_t>(step), bits);
      const int64_t count = a.out - first < kDrawColumns ? a.out - first : kDrawColumns;
      for (int64_t c = 0; c < count; ++c) y[first + c] = bits[c] < threshold ? y[first + c] * scale : 0.0f;
    }
  }
}

void column_sums(const float* matrix, float* sums, int64_t rows, int64_t columns, int64_t stride, bool accumulate) {
  if (!accumulate)
    for (int64_t c = 0; c < columns; ++c) sums[c] = 0.0f;
  for (int64_t r = 0; r < rows; ++r) {
    const float* line = matrix + r * stride;
    for (int64_t c = 0; c < columns; ++c) sums[c] += line[c];
  }
}

void mask_and_column_sums(const DenseBackwardInput& a) {
  if (a.dbias && !a.accumulate)
    for (int64_t c = 0; c < a.in; ++c) a.dbias[c] = 0.0f;
  for (int64_t r = 0; r < a.batch; ++r) {
    float* dx = a.dx + r * a.in;
    const float* activation = a.activation ? a.activation + r * a.in : nullptr;
    if (activation) {
      for (int64_t c = 0; c < a.in; ++c) dx[c] = activation[c] != 0.0f ? a.scale * dx[c] : 0.0f;
    } else if (a.scale != 1.0f) {
      for (int64_t c = 0; c < a.in; ++c) dx[c] *= a.scale;
    }
    if (a.dbias)
      for (int64_t c = 0; c < a.in; ++c) a.dbias[c] += dx[c];
  }
}

void mse_loss(const MseLoss& a) {
  double loss = 0.0;
  for (int64_t i = 0; i < a.batch * a.out; ++i) {
    const float difference = a.prediction[i] - a.target[i];
    loss += static_cast<double>(difference) * difference;
    a.d_prediction[i] = 2.0f * a.scale * difference;
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
