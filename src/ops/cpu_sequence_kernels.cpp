// Compiled twice: AMDAHL_CPU_SEQUENCE_KERNELS names the table, the build sets the instruction set. As in
// cpu_kernels.cpp, nothing of the standard library is instantiated here.
#include "ops/cpu_sequence_kernels.h"

#include <math.h>
#include <stddef.h>

#include "ops/cpu_vector.h"

// Every function that a kernel calls becomes part of it: the bodies of its loops are lambdas.
#define AMDAHL_KERNEL __attribute__((flatten))

namespace amdahl {
namespace {

AMDAHL_KERNEL void add_bias(float* c, const float* bias, int64_t rows, int64_t width, int64_t stride) {
  for (int64_t r = 0; r < rows; ++r) {
    float* row = c + r * stride;
    for_each_vector(width, [&](int64_t i, auto n) { store(row + i, load(row + i, n) + load(bias + i, n), n); });
  }
}

// The tanh approximation x (1 + tanh(u)) / 2 is x sigmoid(2 u), with 2 u = x (kLinear + kCubic x^2).
constexpr float kLinear = 1.59576912f, kCubic = 0.0713548163f;  // 2 sqrt(2 / pi), and 0.044715 of it

inline Lanes gelu_of(Lanes x) { return x * sigmoid_of(x * (kLinear + kCubic * x * x)).value; }

inline Lanes gelu_gradient_of(Lanes x) {
  const Lanes square = x * x;
  const Sigmoid s = sigmoid_of(x * (kLinear + kCubic * square));
  return s.value + x * (kLinear + 3.0f * kCubic * square) * s.derivative;
}

AMDAHL_KERNEL void bias_gelu(float* aux, const float* bias, float* c, int64_t rows, int64_t width, int64_t stride) {
  for (int64_t r = 0; r < rows; ++r) {
    float* before = aux + r * width;
    float* row = c + r * stride;
    for_each_vector(width, [&](int64_t i, auto n) {
      const Lanes x = load(before + i, n) + load(bias + i, n);
      store(before + i, x, n);
      store(row + i, gelu_of(x), n);
    });
  }
}

AMDAHL_KERNEL void gelu_gradient(float* c, const float* aux, float* dbias, int64_t rows, int64_t width,
                                 int64_t stride) {
  for (int64_t r = 0; r < rows; ++r) {
    const float* before = aux + r * width;
    float* row = c + r * stride;
    for_each_vector(width, [&](int64_t i, auto n) {
      const Lanes d = load(row + i, n) * gelu_gradient_of(load(before + i, n));
      store(row + i, d, n);
      if (dbias) store(dbias + i, load(dbias + i, n) + d, n);
    });
  }
}

AMDAHL_KERNEL void row_sums(const float* x, float* sums, int64_t rows, int64_t width, int64_t stride, bool accumulate) {
  for (int64_t r = 0; r < rows; ++r) {
    Lanes sum{};
    for_each_vector(width, [&](int64_t i, auto n) { sum += load(x + r * stride + i, n); });
    sums[r] = (accumulate ? sums[r] : 0.0f) + sum_of(sum);
  }
}

AMDAHL_KERNEL void add(const float* x, const float* y, float* sum, int64_t count) {
  for_each_vector(count, [&](int64_t i, auto n) { store(sum + i, load(x + i, n) + load(y + i, n), n); });
}

AMDAHL_KERNEL void layer_norm_forward(const LayerNormForward& a) {
  const float inverse_width = 1.0f / static_cast<float>(a.width);
  const auto* delta = static_cast<const float*>(a.delta);
  for (int64_t r = 0; r < a.rows; ++r) {
    const float* x = a.x + r * a.width;
    const float* change = delta ? delta + r * a.width : nullptr;
    float* sum = a.sum ? a.sum + r * a.width : nullptr;
    const auto value = [&](int64_t i, auto n) {
      return change ? load(x + i, n) + load(change + i, n) : load(x + i, n);
    };
    Lanes total{};
    for_each_vector(a.width, [&](int64_t i, auto n) {
      const Lanes v = value(i, n);
      if (sum) store(sum + i, v, n);
      total += v;
    });
    if (sum) x = sum, change = nullptr;
    const float mean = sum_of(total) * inverse_width;
    Lanes squares{};
    for_each_vector(a.width, [&](int64_t i, auto n) {
      const Lanes centred = only(value(i, n) - mean, Lanes{}, n);
      squares += centred * centred;
    });
    const float rstd = 1.0f / sqrtf(sum_of(squares) * inverse_width + a.epsilon);
    a.mean[r] = mean;
    a.rstd[r] = rstd;
    if (!a.y) continue;
    float* y = static_cast<float*>(a.y) + r * a.width;
    for_each_vector(a.width, [&](int64_t i, auto n) {
      store(y + i, (value(i, n) - mean) * rstd * load(a.gamma + i, n) + load(a.beta + i, n), n);
    });
  }
}

AMDAHL_KERNEL void layer_norm_backward(const LayerNormBackward& a) {
  const float inverse_width = 1.0f / static_cast<float>(a.width);
  if (!a.accumulate)
    for (int64_t i = 0; i < a.width; ++i) a.dgamma[i] = a.dbeta[i] = 0.0f;
  for (int64_t r = 0; r < a.rows; ++r) {
    const float* dy = static_cast<const float*>(a.dy) + r * a.width;
    const float* x = a.x + r * a.width;
    const float mean = a.mean[r], rstd = a.rstd[r];
    Lanes sum{}, weighted{};
    for_each_vector(a.width, [&](int64_t i, auto n) {
      const Lanes d = load(dy + i, n), normalised = (load(x + i, n) - mean) * rstd;
      const Lanes g = d * load(a.gamma + i, n);
      sum += g;
      weighted += g * normalised;
      store(a.dgamma + i, load(a.dgamma + i, n) + d * normalised, n);
      store(a.dbeta + i, load(a.dbeta + i, n) + d, n);
    });
    const float mean_sum = sum_of(sum) * inverse_width, mean_weighted = sum_of(weighted) * inverse_width;
    float* dx = a.dx + r * a.width;
    const float* residual = a.d_residual ? a.d_residual + r * a.width : nullptr;
    float* copy = a.dx_typed ? static_cast<float*>(a.dx_typed) + r * a.width : nullptr;
    for_each_vector(a.width, [&](int64_t i, auto n) {
      const Lanes normalised = (load(x + i, n) - mean) * rstd;
      Lanes d = rstd * (load(dy + i, n) * load(a.gamma + i, n) - mean_sum - normalised * mean_weighted);
      if (residual) d += load(residual + i, n);
      store(dx + i, d, n);
      if (copy) store(copy + i, d, n);
    });
  }
}

inline int64_t attended(const ScoreRows& a, int64_t row) {
  const int64_t last = a.first + row + 1;
  return a.causal && last < a.keys ? last : a.keys;
}

AMDAHL_KERNEL void softmax_rows(const ScoreRows& a, float* log_sums, float* inverse_sums) {
  for (int64_t r = 0; r < a.rows; ++r) {
    float* row = a.scores + r * a.stride;
    const int64_t keys = attended(a, r);
    const Lanes lowest = broadcast(-INFINITY);
    Lanes largest = lowest;
    for_each_vector(keys, [&](int64_t i, auto n) { largest = larger(largest, only(load(row + i, n), lowest, n)); });
    const float top = largest_of(largest), scale = a.scale;
    Lanes sum{};
    for_each_vector(keys, [&](int64_t i, auto n) {
      const Lanes e = only(exp_of((load(row + i, n) - top) * scale), Lanes{}, n);
      sum += e;
      store(row + i, e, n);
    });
    for (int64_t i = keys; i < a.keys; ++i) row[i] = 0.0f;
    const float total = sum_of(sum);
    log_sums[r] = top * scale + logf(total);
    inverse_sums[r] = 1.0f / total;
  }
}

AMDAHL_KERNEL void softmax_gradient(const ScoreRows& a, float* d_p, const float* log_sums, const float* dots) {
  for (int64_t r = 0; r < a.rows; ++r) {
    float* row = a.scores + r * a.stride;
    float* gradient = d_p + r * a.stride;
    const int64_t keys = attended(a, r);
    const float log_sum = log_sums[r], dot = dots[r], scale = a.scale;
    for_each_vector(keys, [&](int64_t i, auto n) {
      const Lanes p = exp_of(load(row + i, n) * scale - log_sum);
      store(row + i, p, n);
      store(gradient + i, (load(gradient + i, n) - dot) * (p * scale), n);
    });
    for (int64_t i = keys; i < a.keys; ++i) row[i] = gradient[i] = 0.0f;
  }
}

AMDAHL_KERNEL void row_dots(const float* a, const float* b, float* dots, int64_t rows, int64_t width, int64_t stride) {
  for (int64_t r = 0; r < rows; ++r) {
    Lanes sum{};
    for_each_vector(width,
                    [&](int64_t i, auto n) { sum += load(a + r * stride + i, n) * load(b + r * stride + i, n); });
    dots[r] = sum_of(sum);
  }
}

AMDAHL_KERNEL void scale_rows(float* x, const float* factors, int64_t rows, int64_t width, int64_t stride) {
  for (int64_t r = 0; r < rows; ++r) {
    float* row = x + r * stride;
    const float factor = factors[r];
    for_each_vector(width, [&](int64_t i, auto n) { store(row + i, load(row + i, n) * factor, n); });
  }
}

AMDAHL_KERNEL void embedding_forward(const EmbeddingForward& a) {
  for (int64_t r = 0; r < a.rows; ++r)
    for (int64_t t = 0; t < a.steps; ++t) {
      const float* entry = a.table + static_cast<int64_t>(a.tokens[r * a.steps + t]) * a.width;
      const float* position = a.positions ? a.positions + t * a.width : nullptr;
      float* out = a.out + (r * a.steps + t) * a.width;
      for_each_vector(a.width, [&](int64_t i, auto n) {
        Lanes v = load(entry + i, n);
        if (position) v += load(position + i, n);
        if (a.common) v += load(a.common + i, n);
        store(out + i, v, n);
      });
    }
}

inline void add_to(float* sums, const float* values, int64_t count) {
  for_each_vector(count, [&](int64_t i, auto n) { store(sums + i, load(sums + i, n) + load(values + i, n), n); });
}

AMDAHL_KERNEL void embedding_backward(const EmbeddingBackward& a) {
  if (!a.accumulate) {
    for (int64_t i = 0; a.d_positions && i < a.steps * a.width; ++i) a.d_positions[i] = 0.0f;
    for (int64_t i = 0; a.d_common && i < a.width; ++i) a.d_common[i] = 0.0f;
  }
  for (int64_t r = 0; r < a.rows; ++r)
    for (int64_t t = 0; t < a.steps; ++t) {
      const float* d_out = a.d_out + (r * a.steps + t) * a.width;
      add_to(a.d_table + static_cast<int64_t>(a.tokens[r * a.steps + t]) * a.width, d_out, a.width);
      if (a.d_positions) add_to(a.d_positions + t * a.width, d_out, a.width);
      if (a.d_common) add_to(a.d_common, d_out, a.width);
    }
}

AMDAHL_KERNEL void pool_mean(const PoolSteps& a) {
  const float factor = 1.0f / static_cast<float>(a.steps);
  for (int64_t r = 0; r < a.rows; ++r) {
    float* y = a.y + r * a.width;
    for (int64_t i = 0; i < a.width; ++i) y[i] = 0.0f;
    for (int64_t t = 0; t < a.steps; ++t) add_to(y, a.x + (r * a.steps + t) * a.width, a.width);
    for (int64_t i = 0; i < a.width; ++i) y[i] *= factor;
  }
}

AMDAHL_KERNEL void pool_mean_gradient(const PoolStepsGradient& a) {
  const float factor = 1.0f / static_cast<float>(a.steps);
  for (int64_t r = 0; r < a.rows; ++r)
    for (int64_t t = 0; t < a.steps; ++t) {
      const float* d_y = a.d_y + r * a.width;
      float* d_x = a.d_x + (r * a.steps + t) * a.width;
      for_each_vector(a.width, [&](int64_t i, auto n) { store(d_x + i, load(d_y + i, n) * factor, n); });
    }
}

constexpr int64_t kChunk = 512;  // elements that are summed in f32 before they are added in f64

/// The largest of row[0, count), -infinity for none.
inline float largest_in(const float* row, int64_t count) {
  const Lanes lowest = broadcast(-INFINITY);
  Lanes largest = lowest;
  for_each_vector(count, [&](int64_t i, auto n) { largest = larger(largest, only(load(row + i, n), lowest, n)); });
  return largest_of(largest);
}

/// The sum of exp(row - top) over [0, count); writes the terms to the row when `keep`.
inline double exp_sum(float* row, float top, int64_t count, bool keep) {
  double total = 0.0;
  for (int64_t first = 0; first < count; first += kChunk) {
    Lanes sum{};
    float* chunk = row + first;
    for_each_vector(count - first < kChunk ? count - first : kChunk, [&](int64_t i, auto n) {
      const Lanes e = only(exp_of(load(chunk + i, n) - top), Lanes{}, n);
      sum += e;
      if (keep) store(chunk + i, e, n);
    });
    total += static_cast<double>(sum_of(sum));
  }
  return total;
}

// p - 1 of the label is computed as minus the sum of the other classes, without cancellation where p is close to 1.
AMDAHL_KERNEL void token_loss(const TokenLoss& a) {
  double loss = 0.0;
  int64_t correct = 0;
  for (int64_t r = 0; r < a.rows; ++r) {
    float* row = static_cast<float*>(a.logits) + r * a.stride;
    const auto label = static_cast<int64_t>(a.labels[r]);
    const int64_t after = a.classes - label - 1;
    const float of_label = row[label], before = largest_in(row, label), behind = largest_in(row + label + 1, after);
    correct += of_label > before && of_label >= behind;
    const float other = before > behind ? before : behind, top = of_label > other ? of_label : other;
    const double others = exp_sum(row, top, label, a.gradient) + exp_sum(row + label + 1, top, after, a.gradient);
    const double sum = others + exp(static_cast<double>(of_label - top));
    loss += log(sum) + static_cast<double>(top) - static_cast<double>(of_label);
    if (!a.gradient) continue;
    const auto factor = static_cast<float>(static_cast<double>(a.scale) / sum);
    for_each_vector(a.classes, [&](int64_t i, auto n) { store(row + i, load(row + i, n) * factor, n); });
    row[label] = static_cast<float>(-others / sum * static_cast<double>(a.scale));
    for (int64_t i = a.classes; i < a.stride; ++i) row[i] = 0.0f;
  }
  const auto scaled = static_cast<float>(loss * static_cast<double>(a.scale));
  a.stats[0] = a.accumulate ? a.stats[0] + scaled : scaled;
  a.stats[1] = (a.accumulate ? a.stats[1] : 0.0f) + static_cast<float>(correct);
}

AMDAHL_KERNEL void absolute_error(const AbsoluteError& a) {
  const int64_t count = a.rows * a.width;
  double total = 0.0;
  for (int64_t first = 0; first < count; first += kChunk) {
    Lanes sum{};
    for_each_vector(count - first < kChunk ? count - first : kChunk, [&](int64_t i, auto n) {
      const Lanes d = load(a.prediction + first + i, n) - load(a.target + first + i, n);
      sum += larger(d, -d);
    });
    total += static_cast<double>(sum_of(sum));
  }
  *a.stat = static_cast<float>(total * static_cast<double>(a.scale));
}

}  // namespace

const CpuSequenceKernels AMDAHL_CPU_SEQUENCE_KERNELS{
    add_bias,           bias_gelu,        gelu_gradient, row_sums,   layer_norm_forward, layer_norm_backward, add,
    softmax_rows,       softmax_gradient, row_dots,      scale_rows, embedding_forward,  embedding_backward,  pool_mean,
    pool_mean_gradient, token_loss,       absolute_error};

}  // namespace amdahl
