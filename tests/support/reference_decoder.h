// Plain float64 references of what the decoders of today add to reference_sequence.h: root-mean-square normalisation,
// rotary positions, gated activations.
#pragma once

#include "reference_sequence.h"

namespace amdahl::test::reference {

/// x / sqrt(mean(x^2) + epsilon) * gamma of every row.
inline Values rms_norm(const Values& x, const Values& gamma, double epsilon) {
  const size_t width = gamma.size();
  Values y(x.size());
  for (size_t row = 0; row < x.size(); row += width) {
    double squares = 0;
    for (size_t i = 0; i < width; ++i) squares += x[row + i] * x[row + i];
    const double root = std::sqrt(squares / static_cast<double>(width) + epsilon);
    for (size_t i = 0; i < width; ++i) y[row + i] = x[row + i] / root * gamma[i];
  }
  return y;
}
struct RmsGradients {
  Values dx, dgamma;
};
inline RmsGradients rms_norm_gradients(const Values& dy, const Values& x, const Values& gamma, double epsilon) {
  const size_t width = gamma.size();
  const Values normalised = rms_norm(x, Values(width, 1.0), epsilon);
  RmsGradients g{Values(x.size()), Values(width, 0.0)};
  for (size_t row = 0; row < x.size(); row += width) {
    double squares = 0, weighted = 0;
    for (size_t i = 0; i < width; ++i) {
      squares += x[row + i] * x[row + i];
      weighted += dy[row + i] * gamma[i] * normalised[row + i] / static_cast<double>(width);
      g.dgamma[i] += dy[row + i] * normalised[row + i];
    }
    const double root = std::sqrt(squares / static_cast<double>(width) + epsilon);
    for (size_t i = 0; i < width; ++i) g.dx[row + i] = (dy[row + i] * gamma[i] - normalised[row + i] * weighted) / root;
  }
  return g;
}

/// The vector of each head of q and k in qkv, by body(first element, step, whether it is of q).
template <class Body>
inline void for_each_turned_head(const AttentionSizes& s, const Body& body) {
  for (int64_t token = 0; token < s.batch * s.steps; ++token)
    for (int64_t h = 0; h < s.heads + s.key_heads(); ++h)
      body(at((token * (s.heads + 2 * s.key_heads()) + h) * s.head_width), token % s.steps, h < s.heads);
}

/// How heads change before attention. Empty: no normalisation, no rotation.
struct Heads {
  Values q_weight, k_weight;  // [head_width]
  Values angles;              // [steps, head_width / 2]
  double factor = 1;          // of cosine and sine
  double epsilon = 1e-5;
};
inline Values rotated(const AttentionSizes& s, Values x, const Heads& heads, double direction) {
  if (heads.angles.empty()) return x;
  const int64_t half = s.head_width / 2;
  for_each_turned_head(s, [&](size_t begin, int64_t step, bool) {
    for (int64_t i = 0; i < half; ++i) {
      const double angle = heads.angles[at(step * half + i)];
      const double cosine = heads.factor * std::cos(angle), sine = direction * heads.factor * std::sin(angle);
      double &a = x[begin + at(i)], &b = x[begin + at(i + half)];
      const double first = a, second = b;
      a = first * cosine - second * sine;
      b = second * cosine + first * sine;
    }
  });
  return x;
}
inline Values heads_forward(const AttentionSizes& s, Values qkv, const Heads& heads) {
  if (!heads.q_weight.empty())
    for_each_turned_head(s, [&](size_t begin, int64_t, bool query) {
      const auto first = qkv.begin() + static_cast<std::ptrdiff_t>(begin);
      const Values y =
          rms_norm(Values(first, first + s.head_width), query ? heads.q_weight : heads.k_weight, heads.epsilon);
      std::copy(y.begin(), y.end(), first);
    });
  return rotated(s, std::move(qkv), heads, 1);
}
struct HeadsGradients {
  Values d_qkv, dq_weight, dk_weight;
};
/// `qkv` as it was before; d_y like heads_forward's result.
inline HeadsGradients heads_gradients(const AttentionSizes& s, const Values& qkv, const Values& d_y,
                                      const Heads& heads) {
  HeadsGradients g{rotated(s, d_y, heads, -1), zeros(s.head_width), zeros(s.head_width)};
  if (heads.q_weight.empty()) return g;
  for_each_turned_head(s, [&](size_t begin, int64_t, bool query) {
    const auto offset = static_cast<std::ptrdiff_t>(begin);
    const auto first = g.d_qkv.begin() + offset;
    const RmsGradients head = rms_norm_gradients(Values(first, first + s.head_width),
                                                 Values(qkv.begin() + offset, qkv.begin() + offset + s.head_width),
                                                 query ? heads.q_weight : heads.k_weight, heads.epsilon);
    std::copy(head.dx.begin(), head.dx.end(), first);
    Values& sums = query ? g.dq_weight : g.dk_weight;
    sums = sum_of(std::move(sums), head.dgamma);
  });
  return g;
}

inline double silu(double x) { return x / (1 + std::exp(-x)); }
inline double silu_derivative(double x) {
  const double s = 1 / (1 + std::exp(-x)), rest = 1 / (1 + std::exp(x));
  return s + x * s * rest;
}

enum class Act { gelu, silu, exact_gelu };  // as HiddenActivation
inline double act_of(Act act, double x) {
  return act == Act::silu ? silu(x) : act == Act::gelu ? gelu(x) : exact_gelu(x);
}
inline double derivative_of(Act act, double x) {
  return act == Act::silu ? silu_derivative(x) : act == Act::gelu ? gelu_derivative(x) : exact_gelu_derivative(x);
}

/// act(x[r, i]), gated times x[r, width + i].
inline Values activate(const Values& x, int64_t width, Act act, bool gated) {
  const size_t stride = at(gated ? 2 * width : width), w = at(width);
  Values y(x.size() / stride * w);
  for (size_t j = 0; j < y.size(); ++j) {
    const size_t i = j / w * stride + j % w;
    y[j] = act_of(act, x[i]) * (gated ? x[i + w] : 1.0);
  }
  return y;
}
inline Values activate_gradient(const Values& d_y, const Values& x, int64_t width, Act act, bool gated) {
  const size_t stride = at(gated ? 2 * width : width), w = at(width);
  Values dx(x.size());
  for (size_t j = 0; j < d_y.size(); ++j) {
    const size_t i = j / w * stride + j % w;
    dx[i] = d_y[j] * derivative_of(act, x[i]) * (gated ? x[i + w] : 1.0);
    if (gated) dx[i + w] = d_y[j] * act_of(act, x[i]);
  }
  return dx;
}

}  // namespace amdahl::test::reference
