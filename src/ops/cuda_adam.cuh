// The Adam update of one parameter, shared by the kernels that apply it.
#pragma once

#include <cmath>

#include "ops/adam_step.h"

namespace amdahl {

struct AdamParameters {
  const uint64_t* step;
  float lr, beta1, beta2, epsilon;
  float log_beta1, log_beta2;
};

inline AdamParameters adam_parameters(const AdamStep& a) {
  return {a.step,
          a.lr,
          a.beta1,
          a.beta2,
          a.epsilon,
          static_cast<float>(std::log(double{a.beta1})),
          static_cast<float>(std::log(double{a.beta2}))};
}

struct AdamRule {
  float lr, beta1, beta2, epsilon, inverse_sqrt_correction2;

  // 1 - beta^t as -expm1(t ln beta): exact to float rounding for every t, without a power in double.
  __device__ explicit AdamRule(const AdamParameters& p) : beta1(p.beta1), beta2(p.beta2), epsilon(p.epsilon) {
    const float t = static_cast<float>(*p.step + 1);
    lr = p.lr / -expm1f(t * p.log_beta1);
    inverse_sqrt_correction2 = 1.0f / sqrtf(-expm1f(t * p.log_beta2));
  }
  __device__ __forceinline__ void operator()(float& w, float g, float& m, float& v) const {
    m = beta1 * m + (1.0f - beta1) * g;
    v = beta2 * v + (1.0f - beta2) * g * g;
    w -= lr * m / (sqrtf(v) * inverse_sqrt_correction2 + epsilon);
  }
};

}  // namespace amdahl
