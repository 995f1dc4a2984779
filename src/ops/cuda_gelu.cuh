// Device code of gelu and its derivative: the tanh approximation, and by erf.
#pragma once

namespace amdahl {

/// gelu(x) = x / 2 * (1 + tanh(u)) = x * sigmoid(2 u) with u = sqrt(2 / pi) * (x + 0.044715 x^3). The second form has
/// no cancellation for negative x.
struct Gelu {
  float value, derivative;
};

__device__ __forceinline__ Gelu gelu_of(float x) {
  constexpr float kTwoRoot = 1.5957691216057308f, kCubic = 0.044715f;  // 2 * sqrt(2 / pi)
  const float square = x * x;
  const float e = __expf(-fabsf(kTwoRoot * x * (1.0f + kCubic * square)));  // at most 1: nothing overflows
  const float large = 1.0f / (1.0f + e), small = e * large;                 // sigmoid(|2 u|) and 1 - sigmoid(|2 u|)
  const float sigmoid = x < 0.0f ? small : large, product = large * small;
  const float slope = kTwoRoot * (1.0f + 3.0f * kCubic * square);  // of 2 u
  return {x * sigmoid, sigmoid + (product == 0.0f ? 0.0f : x * product * slope)};
}

/// gelu(x) = x (1 + erf(x / sqrt(2))) / 2.
__device__ __forceinline__ Gelu exact_gelu_of(float x) {
  constexpr float kDensity = 0.39894228040143268f;  // of the normal distribution at 0
  const float below = normcdff(x), bell = expf(-0.5f * x * x);
  return {x * below, below + (bell == 0.0f ? 0.0f : x * kDensity * bell)};
}

}  // namespace amdahl
