// Activations between the products of a transformer, for the CPU kernels that are built once per instruction set.
// Included by cpu_sequence_kernels.cpp alone.
#pragma once

#include "ops/cpu_vector.h"
#include "ops/gemm/matmul_ops.h"

namespace amdahl {
namespace {

// The tanh approximation x (1 + tanh(u)) / 2 is x / (1 + 2^-z), with z = 2 u log2(e) = x (kLinear + kCubic x^2).
constexpr float kLinear = 2.3022082f, kCubic = 0.10294324f;  // 2 sqrt(2 / pi) log2(e), and 0.044715 of it
constexpr float kLn2 = 0.693147181f;

inline Lanes gelu_of(Lanes x) { return x * sigmoid2_of(x * (kLinear + kCubic * (x * x))).value; }

inline Lanes gelu_gradient_of(Lanes x) {
  const Lanes square = x * x;
  const Sigmoid s = sigmoid2_of(x * (kLinear + kCubic * square));
  return s.value + x * (kLn2 * kLinear + 3.0f * kLn2 * kCubic * square) * s.derivative;
}

inline Lanes silu_of(Lanes x) { return x * sigmoid2_of(x * kLog2e).value; }

inline Lanes silu_gradient_of(Lanes x) {
  const Sigmoid s = sigmoid2_of(x * kLog2e);
  return s.value + x * s.derivative;
}

/// Phi(x) = (1 + erf(x / sqrt(2))) / 2 and its derivative, with an absolute error below 2e-7. A NaN gives NaN.
struct Normal {
  Lanes value, derivative;
};
inline Normal normal_of(Lanes x) {
  const Lanes distance = larger(x, -x), bell = exp_of(-0.5f * distance * distance), t = 1.0f / (1.0f + 0.3f * distance);
  // Phi(-|x|) = bell t p(t): p is a minimax fit for |x| <= 14, relative error 3.5e-9
  const Lanes p =
      0.119686633f +
      t * (0.119572841f +
           t * (0.110227324f +
                t * (0.0784255862f +
                     t * (0.0960578248f +
                          t * (-0.0792473331f +
                               t * (0.191581696f + t * (-0.228067517f + t * (0.112375781f - t * 0.0206128303f))))))));
  const Lanes tail = bell * (t * p);
  return {x < 0.0f ? tail : 1.0f - tail, 0.39894228f * bell};
}

inline Lanes exact_gelu_of(Lanes x) { return x * normal_of(x).value; }

inline Lanes exact_gelu_gradient_of(Lanes x) {
  const Normal n = normal_of(x);
  return n.value + x * n.derivative;
}

template <bool kGated, class Act>
inline void activate_rows(const Activate& a, const Act& act) {
  const int64_t stride = kGated ? 2 * a.width : a.width;
  for (int64_t r = 0; r < a.rows; ++r) {
    const float* x = static_cast<const float*>(a.x) + r * stride;
    float* y = static_cast<float*>(a.y) + r * a.width;
    for_each_vector(a.width, [&](int64_t i, auto n) {
      const Lanes value = act(load(x + i, n));
      store(y + i, kGated ? value * load(x + a.width + i, n) : value, n);
    });
  }
}

template <bool kGated, class Act, class Slope>
inline void activate_gradient_rows(const ActivateGradient& a, const Act& act, const Slope& slope) {
  const int64_t stride = kGated ? 2 * a.width : a.width;
  for (int64_t r = 0; r < a.rows; ++r) {
    const float* x = static_cast<const float*>(a.x) + r * stride;
    const float* d_y = static_cast<const float*>(a.d_y) + r * a.width;
    float* d_x = static_cast<float*>(a.d_x) + r * stride;
    for_each_vector(a.width, [&](int64_t i, auto n) {
      const Lanes gate = load(x + i, n), d = load(d_y + i, n);
      if constexpr (kGated) {
        const Lanes factor = load(x + a.width + i, n);
        store(d_x + i, d * factor * slope(gate), n);
        store(d_x + a.width + i, d * act(gate), n);
      } else {
        store(d_x + i, d * slope(gate), n);
      }
    });
  }
}

AMDAHL_KERNEL void activate(const Activate& a) {
  const auto run = [&a](const auto& act) { a.gated ? activate_rows<true>(a, act) : activate_rows<false>(a, act); };
  if (a.kind == HiddenActivation::gelu) return run([](Lanes x) { return gelu_of(x); });
  if (a.kind == HiddenActivation::exact_gelu) return run([](Lanes x) { return exact_gelu_of(x); });
  run([](Lanes x) { return silu_of(x); });
}

AMDAHL_KERNEL void activate_gradient(const ActivateGradient& a) {
  const auto run = [&a](const auto& act, const auto& slope) {
    a.gated ? activate_gradient_rows<true>(a, act, slope) : activate_gradient_rows<false>(a, act, slope);
  };
  if (a.kind == HiddenActivation::gelu)
    return run([](Lanes x) { return gelu_of(x); }, [](Lanes x) { return gelu_gradient_of(x); });
  if (a.kind == HiddenActivation::exact_gelu)
    return run([](Lanes x) { return exact_gelu_of(x); }, [](Lanes x) { return exact_gelu_gradient_of(x); });
  run([](Lanes x) { return silu_of(x); }, [](Lanes x) { return silu_gradient_of(x); });
}

}  // namespace
}  // namespace amdahl
