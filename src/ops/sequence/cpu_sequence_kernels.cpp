// Compiled three times: AMDAHL_CPU_SEQUENCE_KERNELS names the table, the build sets the instruction set. As in
// cpu_kernels.cpp, nothing of the standard library is instantiated here.
#include "ops/sequence/cpu_sequence_kernels.h"

#include <math.h>
#include <stddef.h>

#include "ops/cpu_vector.h"
#include "ops/sequence/cpu_activation_kernels.h"
#include "ops/sequence/cpu_head_kernels.h"
#include "ops/sequence/cpu_token_loss_kernels.h"

namespace amdahl {
namespace {

inline void transpose_tile(const Transpose& a, int64_t row, int64_t column, int64_t rows, int64_t columns) {
  const float* from = a.from + row * a.stride_from + column;
  float* to = a.to + column * a.stride_to + row;
  for (int64_t c = 0; c < columns; ++c)
    for (int64_t r = 0; r < rows; ++r) to[c * a.stride_to + r] = from[r * a.stride_from + c];
}

AMDAHL_KERNEL void transpose(const Transpose& a) {
  constexpr int64_t kTile = 16;
  for (int64_t row = 0; row < a.rows; row += kTile)
    for (int64_t column = 0; column < a.columns; column += kTile) {
      const int64_t rows = a.rows - row, columns = a.columns - column;
      if (rows >= kTile && columns >= kTile)  // constant counts: vectorised
        transpose_tile(a, row, column, kTile, kTile);
      else
        transpose_tile(a, row, column, rows < kTile ? rows : kTile, columns < kTile ? columns : kTile);
    }
}

AMDAHL_KERNEL void add_bias(const Epilogue& a) {
  const float* bias = a.bias;
  for (int64_t r = 0; r < a.rows; ++r) {
    const float* product = a.product + r * a.stride_product;
    float* c = a.c + r * a.stride_c;
    for_each_vector(a.width, [&](int64_t i, auto n) { store(c + i, load(product + i, n) + load(bias + i, n), n); });
  }
}

AMDAHL_KERNEL void bias_gelu(const Epilogue& a) {
  const float* bias = a.bias;
  for (int64_t r = 0; r < a.rows; ++r) {
    const float* product = a.product + r * a.stride_product;
    float *c = a.c + r * a.stride_c, *aux = a.aux + r * a.stride_aux;
    for_each_vector(a.width, [&](int64_t i, auto n) {
      const Lanes x = load(product + i, n) + load(bias + i, n);
      store(aux + i, x, n);
      store(c + i, gelu_of(x), n);
    });
  }
}

AMDAHL_KERNEL void gelu_gradient(const Epilogue& a) {
  float* dbias = a.dbias;
  for (int64_t r = 0; r < a.rows; ++r) {
    const float *product = a.product + r * a.stride_product, *aux = a.aux + r * a.stride_aux;
    float* c = a.c + r * a.stride_c;
    for_each_vector(a.width, [&](int64_t i, auto n) {
      const Lanes d = load(product + i, n) * gelu_gradient_of(load(aux + i, n));
      store(c + i, d, n);
      if (dbias) store(dbias + i, load(dbias + i, n) + d, n);
    });
  }
}

AMDAHL_KERNEL void row_sums(const float* x, float* sums, int64_t rows, int64_t width, int64_t stride, bool accumulate) {
  for (int64_t r = 0; r < rows; ++r) {
    const Lanes sum = sum_over(width, [&](int64_t i, auto n) { return load(x + r * stride + i, n); });
    sums[r] = (accumulate ? sums[r] : 0.0f) + sum_of(sum);
  }
}

AMDAHL_KERNEL void add(const float* x, const float* y, float* sum, int64_t count) {
  for_each_vector(count, [&](int64_t i, auto n) { store(sum + i, load(x + i, n) + load(y + i, n), n); });
}

/// kCentred: layer normalisation; else of the root mean square.
template <bool kCentred>
inline void normalise(const LayerNormForward& a) {
  const int64_t width = a.width;
  const float inverse_width = 1.0f / static_cast<float>(width);
  const float* gamma = a.gamma;
  const float* beta = a.beta;
  const auto* delta = static_cast<const float*>(a.delta);
  for (int64_t r = 0; r < a.rows; ++r) {
    const float* x = a.x + r * width;
    const float* change = delta ? delta + r * width : nullptr;
    float* sum = a.sum ? a.sum + r * width : nullptr;
    const auto value = [&](int64_t i, auto n) {
      return change ? load(x + i, n) + load(change + i, n) : load(x + i, n);
    };
    const Lanes total = sum_over(width, [&](int64_t i, auto n) {
      const Lanes v = value(i, n);
      if (sum) store(sum + i, v, n);
      return kCentred ? v : v * v;
    });
    if (sum) x = sum, change = nullptr;
    float mean = 0.0f, squares = sum_of(total) * inverse_width;
    if constexpr (kCentred) {
      mean = squares;
      squares = inverse_width * sum_of(sum_over(width, [&](int64_t i, auto n) {
                  const Lanes centred = only(value(i, n) - mean, Lanes{}, n);
                  return centred * centred;
                }));
      a.mean[r] = mean;
    }
    const float rstd = 1.0f / sqrtf(squares + a.epsilon);
    a.rstd[r] = rstd;
    if (!a.y) continue;
    float* y = static_cast<float*>(a.y) + r * width;
    for_each_vector(width, [&](int64_t i, auto n) {
      if constexpr (kCentred)
        store(y + i, (value(i, n) - mean) * rstd * load(gamma + i, n) + load(beta + i, n), n);
      else
        store(y + i, value(i, n) * rstd * load(gamma + i, n), n);
    });
  }
}

AMDAHL_KERNEL void layer_norm_forward(const LayerNormForward& a) { a.mean ? normalise<true>(a) : normalise<false>(a); }

template <bool kCentred>
inline void normalise_gradient(const LayerNormBackward& a) {
  const int64_t width = a.width;
  const float inverse_width = 1.0f / static_cast<float>(width);
  const float* gamma = a.gamma;
  float *dgamma = a.dgamma, *dbeta = a.dbeta;
  if (!a.accumulate)
    for (int64_t i = 0; i < width; ++i) {
      dgamma[i] = 0.0f;
      if (kCentred) dbeta[i] = 0.0f;
    }
  for (int64_t r = 0; r < a.rows; ++r) {
    const float* dy = static_cast<const float*>(a.dy) + r * width;
    const float* x = a.x + r * width;
    const float mean = kCentred ? a.mean[r] : 0.0f, rstd = a.rstd[r];
    const TwoLanes sums = sum_over(width, [&](int64_t i, auto n) {
      const Lanes d = load(dy + i, n), normalised = (load(x + i, n) - mean) * rstd;
      const Lanes g = d * load(gamma + i, n);
      store(dgamma + i, load(dgamma + i, n) + d * normalised, n);
      if (kCentred) store(dbeta + i, load(dbeta + i, n) + d, n);
      return TwoLanes{g, g * normalised};
    });
    if (!a.dx) continue;
    const float mean_sum = kCentred ? sum_of(sums.first) * inverse_width : 0.0f;
    const float mean_weighted = sum_of(sums.second) * inverse_width;
    float* dx = a.dx + r * width;
    const float* residual = a.d_residual ? a.d_residual + r * width : nullptr;
    float* copy = a.dx_typed ? static_cast<float*>(a.dx_typed) + r * width : nullptr;
    for_each_vector(width, [&](int64_t i, auto n) {
      const Lanes normalised = (load(x + i, n) - mean) * rstd;
      Lanes d = rstd * (load(dy + i, n) * load(gamma + i, n) - mean_sum - normalised * mean_weighted);
      if (residual) d += load(residual + i, n);
      store(dx + i, d, n);
      if (copy) store(copy + i, d, n);
    });
  }
}

AMDAHL_KERNEL void layer_norm_backward(const LayerNormBackward& a) {
  a.mean ? normalise_gradient<true>(a) : normalise_gradient<false>(a);
}

inline int64_t attended(const ScoreRows& a, int64_t row) {
  const int64_t last = a.first + row + 1;
  return a.causal && last < a.keys ? last : a.keys;
}

/// Masks the scores of the keys before the first one that query `r` attends to, up to a whole vector, before which
/// there are zeros. Returns the first key of that vector.
inline int64_t mask_before_first(const ScoreRows& a, int64_t r, float* row, int64_t keys, float* gradient) {
  const int64_t in_window = a.window > 0 && keys > a.window ? keys - a.window : 0;
  const int64_t in_document = a.starts ? a.starts[r] - a.first_key : 0;
  const int64_t first = in_window > in_document ? in_window : in_document, whole = first / kLanes * kLanes;
  for (int64_t i = whole; i < first; ++i) row[i] = -INFINITY;
  for (int64_t i = 0; i < whole; i += kLanes) {
    store(row + i, Lanes{}, Whole{});
    if (gradient) store(gradient + i, Lanes{}, Whole{});
  }
  return whole;
}

/// Zeroes row[from, to), whole vectors.
inline void zero_masked(float* row, int64_t from, int64_t to) {
  for (int64_t i = (from + kLanes - 1) / kLanes * kLanes; i < to; i += kLanes) store(row + i, Lanes{}, Whole{});
}

AMDAHL_KERNEL void softmax_rows(const ScoreRows& a, float* log_sums, float* inverse_sums) {
  const Lanes lowest = broadcast(-INFINITY);
  const float scale = a.scale;
  for (int64_t r = 0; r < a.rows; ++r) {
    float* row = a.scores + r * a.stride;
    const int64_t keys = attended(a, r), first = mask_before_first(a, r, row, keys, nullptr);
    float* const scores = row + first;
    Lanes largest = lowest;
    for_each_vector(keys - first,
                    [&](int64_t i, auto n) { largest = larger(largest, only(load(scores + i, Whole{}), lowest, n)); });
    const float top = largest_of(largest);
    const Lanes sum = sum_over(keys - first, [&](int64_t i, auto n) {
      const Lanes e = only(exp_of((load(scores + i, Whole{}) - top) * scale), Lanes{}, n);
      store(scores + i, e, Whole{});
      return e;
    });
    zero_masked(row, keys, a.keys);
    const float total = sum_of(sum);
    log_sums[r] = top * scale + logf(total);
    inverse_sums[r] = 1.0f / total;
  }
}

AMDAHL_KERNEL void softmax_gradient(const ScoreRows& a, float* d_p, const float* log_sums, const float* dots) {
  const float scale = a.scale;
  for (int64_t r = 0; r < a.rows; ++r) {
    float* row = a.scores + r * a.stride;
    float* gradient = d_p + r * a.stride;
    const int64_t keys = attended(a, r), first = mask_before_first(a, r, row, keys, gradient);
    const float log_sum = log_sums[r], dot = dots[r];
    float *const scores = row + first, *const d_scores = gradient + first;
    for_each_vector(keys - first, [&](int64_t i, auto n) {
      const Lanes p = only(exp_of(load(scores + i, Whole{}) * scale - log_sum), Lanes{}, n);
      store(scores + i, p, Whole{});
      store(d_scores + i, only((load(d_scores + i, Whole{}) - dot) * (p * scale), Lanes{}, n), Whole{});
    });
    zero_masked(row, keys, a.keys);
    zero_masked(gradient, keys, a.keys);
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
      const int64_t token = static_cast<int64_t>(a.tokens[r * a.steps + t]) - a.first;
      const bool is_here = !a.is_shard || (token >= 0 && token < a.vocabulary);
      const float* entry = a.table + (is_here ? token : 0) * a.width;
      const int64_t place = a.starts ? t - a.starts[r * a.steps + t] : t;
      const float* position = a.positions ? a.positions + place * a.width : nullptr;
      float* out = a.out + (r * a.steps + t) * a.width;
      for_each_vector(a.width, [&](int64_t i, auto n) {
        Lanes v = is_here ? load(entry + i, n) : Lanes{};
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
      const int64_t token = static_cast<int64_t>(a.tokens[r * a.steps + t]) - a.first;
      if (!a.is_shard || (token >= 0 && token < a.vocabulary)) add_to(a.d_table + token * a.width, d_out, a.width);
      const int64_t place = a.starts ? t - a.starts[r * a.steps + t] : t;
      if (a.d_positions) add_to(a.d_positions + place * a.width, d_out, a.width);
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

const CpuSequenceKernels AMDAHL_CPU_SEQUENCE_KERNELS{transpose,
                                                     add_bias,
                                                     bias_gelu,
                                                     gelu_gradient,
                                                     activate,
                                                     activate_gradient,
                                                     row_sums,
                                                     layer_norm_forward,
                                                     layer_norm_backward,
                                                     add,
                                                     softmax_rows,
                                                     softmax_gradient,
                                                     row_dots,
                                                     scale_rows,
                                                     heads_forward,
                                                     heads_backward,
                                                     embedding_forward,
                                                     embedding_backward,
                                                     pool_mean,
                                                     pool_mean_gradient,
                                                     token_loss,
                                                     token_loss_parts,
                                                     token_loss_of_parts,
                                                     absolute_error};

}  // namespace amdahl
