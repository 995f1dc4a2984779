// The Adam update of one parameter, or of four neighbours that decay alike, shared by the kernels that apply it.
#pragma once

#include <cmath>

#include "ops/optimizer/adam_step.h"

namespace amdahl {

struct AdamParameters {
  const uint64_t* step;
  float lr, beta1, beta2, epsilon;
  float log_beta1, log_beta2;
  StepFactors factors;
  float weight_decay;
  const uint8_t* decays;
  int64_t first;
  uint32_t* changes;
};

inline AdamParameters adam_parameters(const AdamStep& a) {
  return {a.step,
          a.lr,
          a.beta1,
          a.beta2,
          a.epsilon,
          static_cast<float>(std::log(double{a.beta1})),
          static_cast<float>(std::log(double{a.beta2})),
          a.factors,
          a.weight_decay,
          a.decays,
          a.first,
          a.changes.sums};
}

struct AdamRule {
  float lr, beta1, beta2, epsilon, inverse_sqrt_correction2, scale, kept;

  // 1 - beta^t as -expm1(t ln beta): exact to float rounding for every t, without a power in double.
  __device__ explicit AdamRule(const AdamParameters& p) : beta1(p.beta1), beta2(p.beta2), epsilon(p.epsilon) {
    const float t = static_cast<float>(*p.step + 1);
    const float rate = p.factors.rate ? *p.factors.rate : p.lr;
    scale = p.factors.grad_scale ? *p.factors.grad_scale : 1.0f;
    kept = 1.0f - rate * p.weight_decay;
    lr = rate / -expm1f(t * p.log_beta1);
    inverse_sqrt_correction2 = 1.0f / sqrtf(-expm1f(t * p.log_beta2));
  }
  /// What weight decay leaves of parameter i of the step, and of its neighbours in a group of four. `p` is that of the
  /// constructor, read where the kernel's arguments lie: copies would take registers.
  __device__ __forceinline__ float keep(const AdamParameters& p, int64_t i) const {
    return p.decays && !p.decays[(p.first + i) / kDecayLine] ? 1.0f : kept;
  }
  /// Rounding is explicit: of a sum of two products a compiler fuses either, so that kernels would differ in bits.
  __device__ __forceinline__ void operator()(float& w, float g, float& m, float& v, float keep) const {
    g = __fmul_rn(g, scale);
    m = __fmaf_rn(beta1, m, __fmul_rn(1.0f - beta1, g));
    v = __fmaf_rn(beta2, v, __fmul_rn(__fmul_rn(1.0f - beta2, g), g));
    const float scaled = __fmaf_rn(sqrtf(v), inverse_sqrt_correction2, epsilon);
    w = __fmaf_rn(keep, w, -__fdiv_rn(__fmul_rn(lr, m), scaled));
  }
  __device__ __forceinline__ void operator()(float4& w, const float4& g, float4& m, float4& v, float keep) const {
    (*this)(w.x, g.x, m.x, v.x, keep);
    (*this)(w.y, g.y, m.y, v.y, keep);
    (*this)(w.z, g.z, m.z, v.z, keep);
    (*this)(w.w, g.w, m.w, v.w, keep);
  }
};

/// The sum of the bits of `value`'s floats.
__device__ __forceinline__ uint32_t bits_of(float value) { return __float_as_uint(value); }
__device__ __forceinline__ uint32_t bits_of(const float4& value) {
  return bits_of(value.x) + bits_of(value.y) + bits_of(value.z) + bits_of(value.w);
}

/// Applies the rule and adds what it changes to `changes` (ChangeSums).
template <class Values>
__device__ __forceinline__ void step_and_count(const AdamRule& rule, Values& w, const Values& g, Values& m, Values& v,
                                               float keep, uint32_t (&changes)[3]) {
  changes[0] -= bits_of(w), changes[1] -= bits_of(m), changes[2] -= bits_of(v);
  rule(w, g, m, v, keep);
  changes[0] += bits_of(w), changes[1] += bits_of(m), changes[2] += bits_of(v);
}

}  // namespace amdahl
