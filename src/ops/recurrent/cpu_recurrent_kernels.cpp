// Compiled twice: AMDAHL_CPU_RECURRENT names the table, the build sets the instruction set. Plain loops over plain
// arrays, which the compiler vectorises; as in cpu_kernels.cpp, nothing of the standard library is instantiated here.
#include "ops/recurrent/cpu_recurrent_kernels.h"

#include <stddef.h>

namespace amdahl {
namespace {

/// n and r of x = n ln 2 + r, |r| <= ln(2) / 2.
struct ReducedExponent {
  float r;
  float power;  // 2^n, for |n| < 127
};

inline ReducedExponent reduce_exponent(float x) {
  constexpr float kLog2e = 1.44269504f, kRound = 12582912.0f;         // 1.5 * 2^23: adding it rounds to an integer
  constexpr float kLn2High = 0.693145752f, kLn2Low = 1.42860677e-6f;  // n * kLn2High is exact: 15 bits
  const float rounded = x * kLog2e + kRound;
  const float n = rounded - kRound;
  uint32_t bits;
  __builtin_memcpy(&bits, &rounded, sizeof bits);
  bits = (bits << 23) + 0x3f800000u;  // n is in the low bits of `rounded`
  ReducedExponent out;
  __builtin_memcpy(&out.power, &bits, sizeof bits);
  out.r = (x - n * kLn2High) - n * kLn2Low;
  return out;
}

/// e^r - 1 for |r| <= ln(2) / 2. The polynomial is the best one of its degree in relative error, which is 1.7e-8; its
/// leading coefficient 0.49999997 is rounded to 0.5 minus one unit.
inline float small_expm1(float r) {
  const float p = 0.49999997f + r * (0.166665435f + r * (0.0416672006f + r * (0.00836654752f + r * 0.00138825143f)));
  return r + r * r * p;
}

inline float sigmoid_of_cell(float x) {
  const float low = x > 87.0f ? 87.0f : x;
  const float inside = low < -87.0f ? -87.0f : low;
  const ReducedExponent e = reduce_exponent(-inside);
  return 1.0f / (1.0f + (e.power + e.power * small_expm1(e.r)));
}

/// t / (t + 2) with t = e^2|x| - 1, which keeps its relative error near zero.
inline float tanh_of_cell(float x) {
  const float magnitude = x < 0.0f ? -x : x;
  const float inside = magnitude > 10.0f ? 10.0f : magnitude;  // the result is 1 from 9.01 on
  const ReducedExponent e = reduce_exponent(2.0f * inside);
  const float t = e.power * small_expm1(e.r) + (e.power - 1.0f);
  const float result = t / (t + 2.0f);
  return __builtin_copysignf(result, x);
}

inline void copy_row(float* __restrict to, const float* __restrict from, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = from[i];
}

// Arguments of the row functions are locals: the compiler vectorises only if it knows that no store changes them.
inline void lstm_forward_row(float* __restrict gates, const float* __restrict b_input, const float* __restrict b_hidden,
                             const float* __restrict c_before, float* __restrict c, float* __restrict h, int64_t n) {
  for (int64_t u = 0; u < n; ++u) {
    const float i = sigmoid_of_cell(gates[u] + (b_input[u] + b_hidden[u]));
    const float f = sigmoid_of_cell(gates[n + u] + (b_input[n + u] + b_hidden[n + u]));
    const float g = tanh_of_cell(gates[2 * n + u] + (b_input[2 * n + u] + b_hidden[2 * n + u]));
    const float o = sigmoid_of_cell(gates[3 * n + u] + (b_input[3 * n + u] + b_hidden[3 * n + u]));
    const float cell = f * c_before[u] + i * g;
    gates[u] = i;
    gates[n + u] = f;
    gates[2 * n + u] = g;
    gates[3 * n + u] = o;
    c[u] = cell;
    h[u] = o * tanh_of_cell(cell);
  }
}

inline void lstm_backward_row(const float* __restrict gates, const float* __restrict c_before,
                              const float* __restrict c, const float* __restrict dy, const float* __restrict dh,
                              float* __restrict dc, float* __restrict dgates, int64_t n) {
  for (int64_t u = 0; u < n; ++u) {
    const float i = gates[u], f = gates[n + u], g = gates[2 * n + u], o = gates[3 * n + u];
    const float t = tanh_of_cell(c[u]), gradient = dy[u] + dh[u];
    const float cell = dc[u] + gradient * o * (1.0f - t * t);
    dgates[u] = cell * g * i * (1.0f - i);
    dgates[n + u] = cell * c_before[u] * f * (1.0f - f);
    dgates[2 * n + u] = cell * i * (1.0f - g * g);
    dgates[3 * n + u] = gradient * t * o * (1.0f - o);
    dc[u] = cell * f;
  }
}

inline void gru_forward_row(float* __restrict gates, const float* __restrict recurrent, const float* __restrict b_input,
                            const float* __restrict b_hidden, const float* __restrict h_before,
                            float* __restrict candidate, float* __restrict h, int64_t n) {
  for (int64_t u = 0; u < n; ++u) {
    const float r = sigmoid_of_cell(gates[u] + recurrent[u] + (b_input[u] + b_hidden[u]));
    const float z = sigmoid_of_cell(gates[n + u] + recurrent[n + u] + (b_input[n + u] + b_hidden[n + u]));
    const float from_h = recurrent[2 * n + u] + b_hidden[2 * n + u];
    const float next = tanh_of_cell(gates[2 * n + u] + b_input[2 * n + u] + r * from_h);
    gates[u] = r;
    gates[n + u] = z;
    gates[2 * n + u] = next;
    candidate[u] = from_h;
    h[u] = next + z * (h_before[u] - next);
  }
}

inline void gru_backward_row(const float* __restrict gates, const float* __restrict candidate,
                             const float* __restrict h_before, const float* __restrict dy, float* __restrict dh,
                             float* __restrict dgates, int64_t n) {
  for (int64_t u = 0; u < n; ++u) {
    const float r = gates[u], z = gates[n + u], next = gates[2 * n + u];
    const float gradient = dy[u] + dh[u];
    const float dn = gradient * (1.0f - z) * (1.0f - next * next);
    dgates[u] = dn * candidate[u] * r * (1.0f - r);
    dgates[n + u] = gradient * (h_before[u] - next) * z * (1.0f - z);
    dgates[2 * n + u] = dn * r;
    dgates[3 * n + u] = dn;
    dh[u] = gradient * z;
  }
}

template <class Float>
inline Float* row_of(const CellRows<Float>& rows, int64_t row) {
  return rows.data + row * rows.stride;
}

void lstm_forward(const LstmForwardStep& a) {
  for (int64_t r = 0; r < a.rows; ++r) {
    lstm_forward_row(row_of(a.gates, r), a.b_input, a.b_hidden, row_of(a.c_before, r), row_of(a.c, r), row_of(a.h, r),
                     a.hidden);
    if (a.y.data) copy_row(row_of(a.y, r), row_of(a.h, r), a.hidden);
  }
}

void lstm_backward(const LstmBackwardStep& a) {
  for (int64_t r = 0; r < a.rows; ++r)
    lstm_backward_row(row_of(a.gates, r), row_of(a.c_before, r), row_of(a.c, r), row_of(a.dy, r), row_of(a.dh, r),
                      row_of(a.dc, r), row_of(a.dgates, r), a.hidden);
}

void gru_forward(const GruForwardStep& a) {
  for (int64_t r = 0; r < a.rows; ++r) {
    gru_forward_row(row_of(a.gates, r), row_of(a.recurrent, r), a.b_input, a.b_hidden, row_of(a.h_before, r),
                    row_of(a.candidate, r), row_of(a.h, r), a.hidden);
    if (a.y.data) copy_row(row_of(a.y, r), row_of(a.h, r), a.hidden);
  }
}

void gru_backward(const GruBackwardStep& a) {
  for (int64_t r = 0; r < a.rows; ++r)
    gru_backward_row(row_of(a.gates, r), row_of(a.candidate, r), row_of(a.h_before, r), row_of(a.dy, r),
                     row_of(a.dh, r), row_of(a.dgates, r), a.hidden);
}

void sigmoid_array(const float* __restrict x, float* __restrict y, int64_t count) {
  for (int64_t i = 0; i < count; ++i) y[i] = sigmoid_of_cell(x[i]);
}

void tanh_array(const float* __restrict x, float* __restrict y, int64_t count) {
  for (int64_t i = 0; i < count; ++i) y[i] = tanh_of_cell(x[i]);
}

}  // namespace

const CpuRecurrentKernels AMDAHL_CPU_RECURRENT{lstm_forward, lstm_backward, gru_forward,
                                               gru_backward, sigmoid_array, tanh_array};

}  // namespace amdahl
