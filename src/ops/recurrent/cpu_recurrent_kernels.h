// One time step of LSTM and GRU cells on the CPU, between the GEMMs; compiled once per instruction set.
#pragma once

#include <cstdint>

namespace amdahl {

/// Rows of `hidden` floats, `stride` floats apart; stride 0: the same row for every row of the batch.
template <class Float>
struct CellRows {
  Float* data;
  int64_t stride;
};

/// Gates of a row: i, f, g, o of `hidden` floats each.
struct LstmForwardStep {
  int64_t rows, hidden;
  const float *b_input, *b_hidden;  // [4 * hidden]
  CellRows<float> gates;            // in: x w_input^T + h w_hidden^T; out: activations
  CellRows<const float> c_before;
  CellRows<float> c, h;
  CellRows<float> y;  // a copy of h; null: none
};

struct LstmBackwardStep {
  int64_t rows, hidden;
  CellRows<const float> gates;  // activations
  CellRows<const float> c_before, c;
  CellRows<const float> dy, dh;  // their sum is the gradient of h
  CellRows<float> dc;            // in: gradient of c from the later step; out: of c_before
  CellRows<float> dgates;        // gradients before the activations, as in `gates`
};

/// Gates of a row: r, z, n of `hidden` floats each.
struct GruForwardStep {
  int64_t rows, hidden;
  const float *b_input, *b_hidden;  // [3 * hidden]
  CellRows<float> gates;            // in: x w_input^T; out: activations
  CellRows<const float> recurrent;  // h w_hidden^T, as in `gates`
  CellRows<const float> h_before;
  CellRows<float> candidate;  // out: the recurrent part of n before the reset gate, with its bias
  CellRows<float> h;
  CellRows<float> y;  // a copy of h; null: none
};

struct GruBackwardStep {
  int64_t rows, hidden;
  CellRows<const float> gates, candidate;
  CellRows<const float> h_before;
  CellRows<const float> dy;
  CellRows<float> dh;      // in: gradient of h without dy; out: of h_before, without the part through the gates
  CellRows<float> dgates;  // gradients before the activations: of r, z, the candidate and n
};

struct CpuRecurrentKernels {
  void (*lstm_forward)(const LstmForwardStep& a);
  void (*lstm_backward)(const LstmBackwardStep& a);
  void (*gru_forward)(const GruForwardStep& a);
  void (*gru_backward)(const GruBackwardStep& a);
  /// The activations by themselves, for tests. Relative errors: below 3 units in the last place of the result, for
  /// sigmoid where x >= -87; below that it is at most 2e-38. NaN gives NaN.
  void (*sigmoid)(const float* x, float* y, int64_t count);
  void (*tanh)(const float* x, float* y, int64_t count);
};

extern const CpuRecurrentKernels kCpuRecurrentBaseline;  // the target's baseline instruction set
extern const CpuRecurrentKernels kCpuRecurrentAvx2;      // AVX2 and FMA; same as baseline on other architectures

}  // namespace amdahl
