// Plain float64 references of the operations of sequence models, forward and backward, which every backend must
// reproduce. Arrays are row-major with the shapes of src/ops/*_ops.h; gradients are set, not accumulated.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <vector>

namespace amdahl::test::reference {

using Values = std::vector<double>;

inline size_t at(int64_t index) { return static_cast<size_t>(index); }
inline Values zeros(int64_t count) { return Values(at(count), 0.0); }

/// df/dx of a scalar function by central differences; relative error about 1e-9 for smooth f of order 1.
inline Values central_differences(const std::function<double(const Values&)>& f, Values x, double step = 1e-5) {
  Values gradient(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const double kept = x[i];
    x[i] = kept + step;
    const double above = f(x);
    x[i] = kept - step;
    gradient[i] = (above - f(x)) / (2 * step);
    x[i] = kept;
  }
  return gradient;
}

inline double dot(const Values& a, const Values& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

inline Values sum_of(Values a, const Values& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

// Matrix products --------------------------------------------------------------------------------------------------

/// c[m,n] = op(a)[m,k] op(b)[k,n]; a transposed matrix is stored as [k,m] or [n,k].
inline Values matmul(const Values& a, const Values& b, int64_t m, int64_t n, int64_t k, bool transpose_a = false,
                     bool transpose_b = false) {
  Values c = zeros(m * n);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t p = 0; p < k; ++p) {
      const double factor = a[at(transpose_a ? p * m + i : i * k + p)];
      for (int64_t j = 0; j < n; ++j) c[at(i * n + j)] += factor * b[at(transpose_b ? j * k + p : p * n + j)];
    }
  return c;
}

struct MatMulGradients {
  Values da, db;  // as a and b are stored
};
inline MatMulGradients matmul_gradients(const Values& a, const Values& b, const Values& dc, int64_t m, int64_t n,
                                        int64_t k, bool transpose_a = false, bool transpose_b = false) {
  MatMulGradients g{zeros(m * k), zeros(k * n)};
  for (int64_t i = 0; i < m; ++i)
    for (int64_t p = 0; p < k; ++p)
      for (int64_t j = 0; j < n; ++j) {
        const size_t in_a = at(transpose_a ? p * m + i : i * k + p), in_b = at(transpose_b ? j * k + p : p * n + j);
        g.da[in_a] += dc[at(i * n + j)] * b[in_b];
        g.db[in_b] += dc[at(i * n + j)] * a[in_a];
      }
  return g;
}

/// Sums of the columns of x[rows, width].
inline Values column_sums(const Values& x, int64_t width) {
  Values sums = zeros(width);
  for (size_t i = 0; i < x.size(); ++i) sums[i % at(width)] += x[i];
  return sums;
}

/// x[rows, width] + bias[width].
inline Values add_bias(Values x, const Values& bias) {
  for (size_t i = 0; i < x.size(); ++i) x[i] += bias[i % bias.size()];
  return x;
}

// GELU, the tanh approximation ---------------------------------------------------------------------------------------

inline double gelu(double x) {
  // 1 + tanh(u) as 2 / (1 + e^-2u): exact also where tanh(u) is close to -1
  const double u = std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x);
  return x / (1 + std::exp(-2 * u));
}
inline double gelu_derivative(double x) {
  const double root = std::sqrt(2 / std::acos(-1.0));
  const double u = root * (x + 0.044715 * x * x * x), slope = root * (1 + 3 * 0.044715 * x * x);
  const double s = 1 / (1 + std::exp(-2 * u)), rest = 1 / (1 + std::exp(2 * u));
  return s + 2 * x * s * rest * slope;
}
/// By erf, where `gelu` is the tanh approximation.
inline double exact_gelu(double x) { return x * std::erfc(-x / std::sqrt(2.0)) / 2; }
inline double exact_gelu_derivative(double x) {
  constexpr double kDensity = 0.3989422804014327;
  return std::erfc(-x / std::sqrt(2.0)) / 2 + x * kDensity * std::exp(-x * x / 2);
}
inline Values gelu(Values x) {
  for (double& v : x) v = gelu(v);
  return x;
}
/// dy gelu'(x).
inline Values gelu_gradient(Values dy, const Values& x) {
  for (size_t i = 0; i < x.size(); ++i) dy[i] *= gelu_derivative(x[i]);
  return dy;
}

// Layer normalisation ------------------------------------------------------------------------------------------------

struct LayerNorm {
  Values y;           // [rows, width]
  Values mean, rstd;  // [rows]
};
inline LayerNorm layer_norm(const Values& x, const Values& gamma, const Values& beta, double epsilon = 1e-5) {
  const size_t width = gamma.size(), rows = x.size() / width;
  LayerNorm result{Values(x.size()), Values(rows), Values(rows)};
  for (size_t r = 0; r < rows; ++r) {
    double mean = 0, variance = 0;
    for (size_t i = 0; i < width; ++i) mean += x[r * width + i] / static_cast<double>(width);
    for (size_t i = 0; i < width; ++i) variance += std::pow(x[r * width + i] - mean, 2) / static_cast<double>(width);
    const double rstd = 1 / std::sqrt(variance + epsilon);
    for (size_t i = 0; i < width; ++i) result.y[r * width + i] = (x[r * width + i] - mean) * rstd * gamma[i] + beta[i];
    result.mean[r] = mean;
    result.rstd[r] = rstd;
  }
  return result;
}

struct LayerNormGradients {
  Values dx, dgamma, dbeta;
};
inline LayerNormGradients layer_norm_gradients(const Values& dy, const Values& x, const Values& gamma,
                                               double epsilon = 1e-5) {
  const size_t width = gamma.size(), rows = x.size() / width;
  const auto count = static_cast<double>(width);
  const LayerNorm forward = layer_norm(x, Values(width, 1.0), Values(width, 0.0), epsilon);
  LayerNormGradients g{Values(x.size()), Values(width, 0.0), Values(width, 0.0)};
  for (size_t r = 0; r < rows; ++r) {
    double sum = 0, weighted = 0;
    for (size_t i = 0; i < width; ++i) {
      const double d = dy[r * width + i], normalised = forward.y[r * width + i];
      g.dgamma[i] += d * normalised;
      g.dbeta[i] += d;
      sum += d * gamma[i];
      weighted += d * gamma[i] * normalised;
    }
    for (size_t i = 0; i < width; ++i) {
      const size_t j = r * width + i;
      g.dx[j] = forward.rstd[r] * (dy[j] * gamma[i] - sum / count - forward.y[j] * weighted / count);
    }
  }
  return g;
}

// Attention ----------------------------------------------------------------------------------------------------------

struct AttentionSizes {
  int64_t batch, steps, heads, head_width;
  bool causal;
  int64_t kv_heads = 0, window = 0;  // 0: heads; all steps
  std::vector<int32_t> starts{};     // [batch, steps] the first step that each attends to; empty: 0

  int64_t key_heads() const { return kv_heads > 0 ? kv_heads : heads; }
  int64_t packed() const { return batch * steps * (heads + 2 * key_heads()) * head_width; }
  /// Element of qkv [batch, steps, heads + 2 kv_heads, head_width] that head h reads; part 0: q, 1: k, 2: v.
  size_t qkv(int64_t b, int64_t t, int64_t part, int64_t h, int64_t i) const {
    const int64_t head = part == 0 ? h : heads + (part - 1) * key_heads() + h * key_heads() / heads;
    return at(((b * steps + t) * (heads + 2 * key_heads()) + head) * head_width + i);
  }
  size_t out(int64_t b, int64_t t, int64_t h, int64_t i) const {
    return at(((b * steps + t) * heads + h) * head_width + i);
  }
  size_t log_sum(int64_t b, int64_t h, int64_t t) const { return at((b * heads + h) * steps + t); }
  int64_t keys(int64_t t) const { return causal ? t + 1 : steps; }
  int64_t first_key(int64_t b, int64_t t) const {
    const int64_t in_document = starts.empty() ? 0 : starts[at(b * steps + t)];
    return window > 0 ? std::max(in_document, t + 1 - window) : in_document;
  }
};

/// softmax(q k^T / sqrt(head_width)) of one query: probabilities of its keys, and the log of the sum of exponentials.
inline Values attention_weights(const AttentionSizes& s, const Values& qkv, int64_t b, int64_t h, int64_t t,
                                double& log_sum) {
  Values p = zeros(s.keys(t));
  double largest = -std::numeric_limits<double>::infinity(), sum = 0;
  for (int64_t key = s.first_key(b, t); key < s.keys(t); ++key) {
    double& score = p[at(key)];
    for (int64_t i = 0; i < s.head_width; ++i) score += qkv[s.qkv(b, t, 0, h, i)] * qkv[s.qkv(b, key, 1, h, i)];
    score /= std::sqrt(static_cast<double>(s.head_width));
    largest = std::max(largest, score);
  }
  for (int64_t key = s.first_key(b, t); key < s.keys(t); ++key) sum += std::exp(p[at(key)] - largest);
  log_sum = largest + std::log(sum);
  for (int64_t key = s.first_key(b, t); key < s.keys(t); ++key) p[at(key)] = std::exp(p[at(key)] - log_sum);
  return p;
}

struct Attention {
  Values out;       // [batch, steps, heads, head_width]
  Values log_sums;  // [batch, heads, steps]
};
inline Attention attention(const AttentionSizes& s, const Values& qkv) {
  Attention result{zeros(s.batch * s.steps * s.heads * s.head_width), zeros(s.batch * s.heads * s.steps)};
  for (int64_t b = 0; b < s.batch; ++b)
    for (int64_t h = 0; h < s.heads; ++h)
      for (int64_t t = 0; t < s.steps; ++t) {
        const Values p = attention_weights(s, qkv, b, h, t, result.log_sums[s.log_sum(b, h, t)]);
        for (int64_t key = 0; key < s.keys(t); ++key)
          for (int64_t i = 0; i < s.head_width; ++i)
            result.out[s.out(b, t, h, i)] += p[at(key)] * qkv[s.qkv(b, key, 2, h, i)];
      }
  return result;
}

inline Values attention_gradient(const AttentionSizes& s, const Values& qkv, const Values& d_out) {
  Values d_qkv(qkv.size(), 0.0);
  const double scale = 1 / std::sqrt(static_cast<double>(s.head_width));
  for (int64_t b = 0; b < s.batch; ++b)
    for (int64_t h = 0; h < s.heads; ++h)
      for (int64_t t = 0; t < s.steps; ++t) {
        double log_sum = 0, mean = 0;
        const Values p = attention_weights(s, qkv, b, h, t, log_sum);
        Values d_p = zeros(s.keys(t));
        for (int64_t key = 0; key < s.keys(t); ++key) {
          for (int64_t i = 0; i < s.head_width; ++i) {
            d_p[at(key)] += d_out[s.out(b, t, h, i)] * qkv[s.qkv(b, key, 2, h, i)];
            d_qkv[s.qkv(b, key, 2, h, i)] += p[at(key)] * d_out[s.out(b, t, h, i)];
          }
          mean += p[at(key)] * d_p[at(key)];
        }
        for (int64_t key = 0; key < s.keys(t); ++key) {
          const double d_score = p[at(key)] * (d_p[at(key)] - mean) * scale;
          for (int64_t i = 0; i < s.head_width; ++i) {
            d_qkv[s.qkv(b, t, 0, h, i)] += d_score * qkv[s.qkv(b, key, 1, h, i)];
            d_qkv[s.qkv(b, key, 1, h, i)] += d_score * qkv[s.qkv(b, t, 0, h, i)];
          }
        }
      }
  return d_qkv;
}

// Embedding, positions, pooling --------------------------------------------------------------------------------------

/// Where the document of each token begins in its row: at the last token `end` up to it.
inline std::vector<int32_t> document_starts(const Values& tokens, int64_t steps, int64_t end) {
  std::vector<int32_t> starts(tokens.size(), 0);
  for (size_t i = 0; i < tokens.size(); ++i) {
    const size_t step = i % at(steps);
    if (step > 0) starts[i] = starts[i - 1];
    if (static_cast<int64_t>(tokens[i]) == end) starts[i] = static_cast<int32_t>(step);
  }
  return starts;
}

/// The same sizes with documents that begin at one of `kinds` random tokens, in the same places every time.
inline AttentionSizes of_documents(AttentionSizes s, int64_t kinds) {
  std::mt19937_64 generator(static_cast<uint64_t>(s.steps * kinds));
  Values tokens = zeros(s.batch * s.steps);
  for (double& token : tokens) token = static_cast<double>(generator() % static_cast<uint64_t>(kinds));
  s.starts = document_starts(tokens, s.steps, 0);
  return s;
}

/// out[r,t,:] = table[tokens[r,t],:] + positions[t - starts[r,t],:] + common[:]; positions, common and starts may be
/// empty.
inline Values embedding(const Values& tokens, const Values& table, const Values& positions, const Values& common,
                        int64_t steps, int64_t width, const std::vector<int32_t>& starts = {}) {
  Values out = zeros(static_cast<int64_t>(tokens.size()) * width);
  for (size_t i = 0; i < out.size(); ++i) {
    const size_t token = i / at(width), column = i % at(width);
    out[i] = table[static_cast<size_t>(tokens[token]) * at(width) + column];
    const size_t start = starts.empty() ? 0 : at(starts[token]);
    if (!positions.empty()) out[i] += positions[(token % at(steps) - start) * at(width) + column];
    if (!common.empty()) out[i] += common[column];
  }
  return out;
}

/// d_positions[t,:] = sum over rows of d_y[r,t,:].
inline Values positions_gradient(const Values& d_y, int64_t steps, int64_t width) {
  return column_sums(d_y, steps * width);
}

struct EmbeddingGradients {
  Values table, positions, common;
};
inline EmbeddingGradients embedding_gradients(const Values& tokens, const Values& d_out, int64_t vocabulary,
                                              int64_t steps, int64_t width, const std::vector<int32_t>& starts = {}) {
  EmbeddingGradients g{zeros(vocabulary * width), zeros(steps * width), column_sums(d_out, width)};
  for (size_t i = 0; i < d_out.size(); ++i) {
    const size_t token = i / at(width), column = i % at(width);
    const size_t start = starts.empty() ? 0 : at(starts[token]);
    g.table[static_cast<size_t>(tokens[token]) * at(width) + column] += d_out[i];
    g.positions[(token % at(steps) - start) * at(width) + column] += d_out[i];
  }
  return g;
}

/// What each step weighs in the pooled row: 1 / steps for the mean, 1 for the chosen step.
enum class Pool { mean, first, last };
inline double pool_weight(Pool pool, int64_t step, int64_t steps) {
  if (pool == Pool::mean) return 1.0 / static_cast<double>(steps);
  return step == (pool == Pool::first ? 0 : steps - 1) ? 1.0 : 0.0;
}

inline Values pool_steps(Pool pool, const Values& x, int64_t rows, int64_t steps, int64_t width) {
  Values y = zeros(rows * width);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t t = 0; t < steps; ++t)
      for (int64_t i = 0; i < width; ++i)
        y[at(r * width + i)] += pool_weight(pool, t, steps) * x[at((r * steps + t) * width + i)];
  return y;
}
inline Values pool_steps_gradient(Pool pool, const Values& d_y, int64_t rows, int64_t steps, int64_t width) {
  Values d_x = zeros(rows * steps * width);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t t = 0; t < steps; ++t)
      for (int64_t i = 0; i < width; ++i)
        d_x[at((r * steps + t) * width + i)] = pool_weight(pool, t, steps) * d_y[at(r * width + i)];
  return d_x;
}

// Losses -------------------------------------------------------------------------------------------------------------

struct CrossEntropy {
  double loss = 0, correct = 0;
  Values gradient;  // [rows, stride], zero in columns >= classes
};
/// Of logits [rows, stride], whose columns [classes, stride) are padding.
inline CrossEntropy cross_entropy(const Values& logits, const Values& labels, int64_t classes, int64_t stride,
                                  double scale) {
  CrossEntropy result{0, 0, Values(logits.size(), 0.0)};
  for (size_t r = 0; r < labels.size(); ++r) {
    const double* row = logits.data() + r * at(stride);
    const auto label = static_cast<int64_t>(labels[r]);
    const double* largest = std::max_element(row, row + classes);
    double others = 0;  // without the label, so that 1 - p is exact where p is close to 1
    for (int64_t c = 0; c < classes; ++c)
      if (c != label) others += std::exp(row[c] - *largest);
    const double sum = others + std::exp(row[label] - *largest);
    result.loss += scale * (std::log(sum) + *largest - row[label]);
    result.correct += largest - row == label;
    for (int64_t c = 0; c < classes; ++c)
      result.gradient[r * at(stride) + at(c)] =
          scale * (c == label ? -others / sum : std::exp(row[c] - *largest) / sum);
  }
  return result;
}

inline double absolute_error(const Values& prediction, const Values& target, double scale) {
  double sum = 0;
  for (size_t i = 0; i < target.size(); ++i) sum += scale * std::abs(prediction[i] - target[i]);
  return sum;
}

}  // namespace amdahl::test::reference
