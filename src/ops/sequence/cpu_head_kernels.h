// Normalisation and rotation of queries and keys, for the CPU kernels that are built once per instruction set. Included
// by cpu_sequence_kernels.cpp alone.
#pragma once

#include <math.h>

#include "ops/attention/attention_ops.h"
#include "ops/cpu_vector.h"

namespace amdahl {
namespace {

/// Turns the pairs (x[i], x[half + i]) by the angles whose cosines and sines are angles[0, half), angles[half, 2 half);
/// kBack: by the negative angles.
template <bool kBack>
inline void turn(float* x, const float* angles, int64_t half) {
  for_each_vector(half, [&](int64_t i, auto n) {
    const Lanes first = load(x + i, n), second = load(x + half + i, n);
    const Lanes cosine = load(angles + i, n), sine = load(angles + half + i, n);
    store(x + i, kBack ? first * cosine + second * sine : first * cosine - second * sine, n);
    store(x + half + i, kBack ? second * cosine - first * sine : second * cosine + first * sine, n);
  });
}

inline float inverse_root(const float* x, int64_t width, float epsilon) {
  const Lanes squares = sum_over(width, [&](int64_t i, auto n) {
    const Lanes v = load(x + i, n);
    return v * v;
  });
  return 1.0f / sqrtf(sum_of(squares) / static_cast<float>(width) + epsilon);
}

/// Calls body(x, index among all heads of q and k, angles of the step or null, whether it is a query).
template <class Body>
inline void for_each_head(const AttentionShape& s, float* qkv, const float* rotation, const Body& body) {
  const int64_t d = s.head_width, turned = s.heads + s.key_heads();
  for (int64_t token = 0; token < s.batch * s.steps; ++token)
    for (int64_t h = 0; h < turned; ++h)
      body(qkv + token * s.packed_width() + h * d, token * turned + h,
           rotation ? rotation + token % s.steps * d : nullptr, h < s.heads);
}

AMDAHL_KERNEL void heads_forward(const HeadsForward& a) {
  const int64_t d = a.shape.head_width;
  auto* kept = static_cast<float*>(a.kept);
  for_each_head(a.shape, static_cast<float*>(a.qkv), a.rotation,
                [&](float* x, int64_t head, const float* angles, bool query) {
                  if (const float* weight = query ? a.q_weight : a.k_weight) {
                    float* copy = kept + head * d;
                    const float rstd = inverse_root(x, d, a.epsilon);
                    for_each_vector(d, [&](int64_t i, auto n) {
                      const Lanes v = load(x + i, n);
                      store(copy + i, v, n);
                      store(x + i, v * rstd * load(weight + i, n), n);
                    });
                  }
                  if (angles) turn<false>(x, angles, d / 2);
                });
}

AMDAHL_KERNEL void heads_backward(const HeadsBackward& a) {
  const int64_t d = a.shape.head_width;
  if (a.q_weight && !a.accumulate)
    for (int64_t i = 0; i < d; ++i) a.dq_weight[i] = a.dk_weight[i] = 0.0f;
  const auto* kept = static_cast<const float*>(a.kept);
  for_each_head(a.shape, static_cast<float*>(a.d_qkv), a.rotation,
                [&](float* dx, int64_t head, const float* angles, bool query) {
                  if (angles) turn<true>(dx, angles, d / 2);
                  const float* weight = query ? a.q_weight : a.k_weight;
                  if (!weight) return;
                  float* d_weight = query ? a.dq_weight : a.dk_weight;
                  const float* x = kept + head * d;
                  const float rstd = inverse_root(x, d, a.epsilon);
                  const Lanes products = sum_over(d, [&](int64_t i, auto n) {
                    const Lanes normalised = load(x + i, n) * rstd, gradient = load(dx + i, n);
                    store(d_weight + i, load(d_weight + i, n) + gradient * normalised, n);
                    return gradient * load(weight + i, n) * normalised;
                  });
                  const float mean = sum_of(products) / static_cast<float>(d);
                  for_each_vector(d, [&](int64_t i, auto n) {
                    const Lanes normalised = load(x + i, n) * rstd;
                    store(dx + i, rstd * (load(dx + i, n) * load(weight + i, n) - normalised * mean), n);
                  });
                });
}

}  // namespace
}  // namespace amdahl
