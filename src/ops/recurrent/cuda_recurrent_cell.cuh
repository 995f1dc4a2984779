// Device helpers: what LSTM and GRU cells compute for one unit of one row.
#pragma once

#include "ops/recurrent/recurrent_ops.h"

namespace amdahl {

template <RecurrentCell kCell>
inline constexpr int kNumGates = kCell == RecurrentCell::lstm ? 4 : 3;

__device__ __forceinline__ float cell_sigmoid(float x) { return __fdividef(1.0f, 1.0f + __expf(-x)); }

/// Relative error below 1e-6. Near zero a series, because the quotient loses digits there.
__device__ __forceinline__ float cell_tanh(float x) {
  const float square = x * x;
  const float series =
      x + x * square * (-0.333333333f + square * (0.133333333f + square * (-0.0539682540f + square * 0.0218694885f)));
  const float quotient = copysignf(1.0f - __fdividef(2.0f, 1.0f + __expf(2.0f * fabsf(x))), x);
  return fabsf(x) < 0.3f ? series : quotient;
}

/// tanh with a relative error of 2^-11, for operands that bf16 rounds more than that.
__device__ __forceinline__ float fast_tanh(float x) {
  float y;
  asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
template <bool kFast>
__device__ __forceinline__ float sigmoid_of(float x) {
  return kFast ? 0.5f + 0.5f * fast_tanh(0.5f * x) : cell_sigmoid(x);
}
template <bool kFast>
__device__ __forceinline__ float tanh_of(float x) {
  return kFast ? fast_tanh(x) : cell_tanh(x);
}

/// What forward computes for one unit.
struct CellOutput {
  float gates[4];  // activations: i, f, g, o or r, z, n
  float kept;      // c, or the recurrent part of n
  float h;
};

/// `before`: i, f, g, o before the activations; or r, z, the part of n from x and the part of n from h. `state`: c of
/// LSTM, h of GRU; replaced by that of this step.
template <RecurrentCell kCell, bool kFast = false>
__device__ __forceinline__ CellOutput forward_cell(const float (&before)[4], float& state) {
  CellOutput out;
  out.gates[0] = sigmoid_of<kFast>(before[0]);
  out.gates[1] = sigmoid_of<kFast>(before[1]);
  if constexpr (kCell == RecurrentCell::lstm) {
    out.gates[2] = tanh_of<kFast>(before[2]);
    out.gates[3] = sigmoid_of<kFast>(before[3]);
    state = out.gates[1] * state + out.gates[0] * out.gates[2];
    out.kept = state;
    out.h = out.gates[3] * tanh_of<kFast>(state);
  } else {
    out.gates[2] = tanh_of<kFast>(before[2] + out.gates[0] * before[3]);
    out.gates[3] = 0.0f;
    out.kept = before[3];
    out.h = out.gates[2] + out.gates[1] * (state - out.gates[2]);
    state = out.h;
  }
  return out;
}

/// The sums of one unit before its activations. `from_x`, `from_h`: products of this row with the weights of the unit's
/// gates, `stride` floats apart; `from_h` is null in the first step. The biases are `stride` floats apart too.
template <RecurrentCell kCell>
__device__ __forceinline__ void sum_before(const float* from_x, const float* from_h, const float* b_input,
                                           const float* b_hidden, int64_t stride, float (&before)[4]) {
  constexpr int kGates = kNumGates<kCell>;
  float hidden[4] = {};
#pragma unroll
  for (int gate = 0; gate < kGates; ++gate) {
    const int64_t at = gate * stride;
    if (from_h) hidden[gate] = from_h[at];
    before[gate] = from_x[at] + b_input[at];
    hidden[gate] += b_hidden[at];
  }
  if constexpr (kCell == RecurrentCell::lstm) {
#pragma unroll
    for (int gate = 0; gate < 4; ++gate) before[gate] += hidden[gate];
  } else {
    before[0] += hidden[0];
    before[1] += hidden[1];
    before[3] = hidden[2];
  }
}

/// What backward reads for one unit of one step.
struct CellSaved {
  float gates[4];  // activations
  float kept;      // c, or the recurrent part of n
  float before;    // c or h of the step before
  float dy;
};

/// Products of saved values, taken before the gradient of h is known.
template <RecurrentCell kCell, bool kFast = false>
struct CellFactors {
  float v[6], dy;

  CellFactors() = default;
  __device__ __forceinline__ explicit CellFactors(const CellSaved& s) : dy(s.dy) {
    const float* const gate = s.gates;
    if constexpr (kCell == RecurrentCell::lstm) {
      const float t = tanh_of<kFast>(s.kept);
      v[0] = gate[3] * (1.0f - t * t);
      v[1] = gate[2] * gate[0] * (1.0f - gate[0]);
      v[2] = s.before * gate[1] * (1.0f - gate[1]);
      v[3] = gate[0] * (1.0f - gate[2] * gate[2]);
      v[4] = t * gate[3] * (1.0f - gate[3]);
      v[5] = gate[1];
    } else {
      v[0] = (1.0f - gate[1]) * (1.0f - gate[2] * gate[2]);
      v[1] = s.kept * gate[0] * (1.0f - gate[0]);
      v[2] = (s.before - gate[2]) * gate[1] * (1.0f - gate[1]);
      v[3] = gate[0];
      v[4] = gate[1];
      v[5] = 0.0f;
    }
  }
  /// d: gradients before the activations, in the order of dgates. `recurrent`: the part of the gradient of h that came
  /// through the later step's gates. `state`: gradient of c, or the part of the gradient of h that passed the later
  /// step's gates by; replaced by that for the step before.
  __device__ __forceinline__ void apply(float recurrent, float& state, float (&d)[4]) const {
    if constexpr (kCell == RecurrentCell::lstm) {
      const float dh = dy + recurrent, dc = state + dh * v[0];
      d[0] = dc * v[1];
      d[1] = dc * v[2];
      d[2] = dc * v[3];
      d[3] = dh * v[4];
      state = dc * v[5];
    } else {
      const float dh = dy + recurrent + state, dn = dh * v[0];
      d[0] = dn * v[1];
      d[1] = dh * v[2];
      d[2] = dn * v[3];
      d[3] = dn;
      state = dh * v[4];
    }
  }
};

}  // namespace amdahl
