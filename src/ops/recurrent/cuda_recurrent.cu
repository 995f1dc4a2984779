// One step of a recurrent layer between two GEMMs, and the bias gradients.
#include "ops/recurrent/cuda_recurrent.h"

#include "ops/cuda_launch.cuh"
#include "ops/recurrent/cuda_recurrent_cell.cuh"

namespace amdahl {
namespace {

template <RecurrentCell kCell>
__global__ void __launch_bounds__(kThreads)
    recurrent_forward_step(RecurrentForwardArrays a, int t, const float* recurrent) {
  constexpr int kGates = kNumGates<kCell>;
  wait_for_predecessor();
  float* const h_before = a.h_before;
  const int64_t count = static_cast<int64_t>(a.batch) * a.hidden;
  for (int64_t i = thread_index(); i < count; i += thread_count()) {
    const int64_t batch = i / a.hidden, row = batch * a.steps + t;
    const int unit = static_cast<int>(i % a.hidden);
    float* const gates = a.gates + row * kGates * a.hidden + unit;
    float before[4];
    sum_before<kCell>(gates, recurrent ? recurrent + batch * kGates * a.hidden + unit : nullptr, a.b_input + unit,
                      a.b_hidden + unit, a.hidden, before);
    float state = 0.0f;
    if (t > 0)
      state = kCell == RecurrentCell::lstm ? a.cells[(row - 1) * a.hidden + unit] : h_before[row * a.hidden + unit];
    const CellOutput out = forward_cell<kCell>(before, state);
#pragma unroll
    for (int gate = 0; gate < kGates; ++gate) gates[gate * a.hidden] = out.gates[gate];
    a.cells[row * a.hidden + unit] = out.kept;
    if (t == 0) h_before[row * a.hidden + unit] = 0.0f;
    if (t + 1 < a.steps) h_before[(row + 1) * a.hidden + unit] = out.h;
    if (!a.last_step_only) a.y[row * a.hidden + unit] = out.h;
    if (a.last_step_only && t + 1 == a.steps) a.y[i] = out.h;
  }
}

template <RecurrentCell kCell>
__global__ void __launch_bounds__(kThreads)
    recurrent_backward_step(RecurrentBackwardArrays a, int t, float* dh, float* dc) {
  constexpr int kGates = kNumGates<kCell>;
  constexpr bool kLstm = kCell == RecurrentCell::lstm;
  wait_for_predecessor();
  const float* const h_before = a.h_before;
  float* const dgates = a.dgates;
  const int64_t count = static_cast<int64_t>(a.batch) * a.hidden;
  const bool last = t + 1 == a.steps;
  for (int64_t i = thread_index(); i < count; i += thread_count()) {
    const int64_t row = i / a.hidden * a.steps + t;
    const int unit = static_cast<int>(i % a.hidden);
    CellSaved saved = {};
#pragma unroll
    for (int gate = 0; gate < kGates; ++gate) saved.gates[gate] = a.gates[(row * kGates + gate) * a.hidden + unit];
    saved.kept = a.cells[row * a.hidden + unit];
    if (t > 0) saved.before = kLstm ? a.cells[(row - 1) * a.hidden + unit] : h_before[row * a.hidden + unit];
    if (!a.last_step_only) saved.dy = a.dy[row * a.hidden + unit];
    if (a.last_step_only && last) saved.dy = a.dy[i];
    // GRU's dh already holds both parts: the GEMM added to what this kernel had left there.
    const float recurrent = last ? 0.0f : dh[i];
    float state = kLstm && !last ? dc[i] : 0.0f, d[4];
    CellFactors<kCell>(saved).apply(recurrent, state, d);
    if (kLstm)
      dc[i] = state;
    else
      dh[i] = state;
#pragma unroll
    for (int gate = 0; gate < 4; ++gate) dgates[(row * 4 + gate) * a.hidden + unit] = d[gate];
  }
}

__global__ void __launch_bounds__(kThreads) recurrent_biases(bool lstm, const float* sums, int parts, int hidden,
                                                             float* b_input, float* b_hidden, bool accumulate) {
  wait_for_predecessor();
  const int column = static_cast<int>(thread_index()), gate = column / hidden;
  if (gate >= 4) return;
  float sum = 0.0f;
  for (int part = 0; part < parts; ++part) sum += sums[static_cast<int64_t>(part) * 4 * hidden + column];
  const auto add = [&](float* to) { *to = sum + (accumulate ? *to : 0.0f); };
  if (lstm || gate < 3) add(b_hidden + column);
  if (lstm || gate < 2) add(b_input + column);
  if (!lstm && gate == 3) add(b_input + column - hidden);  // n comes after its recurrent part
}

}  // namespace

void launch_recurrent_forward_step(const KernelLaunch& launch, const RecurrentForwardArrays& a, int t,
                                   const float* recurrent) {
  const auto kernel = a.cell == RecurrentCell::lstm ? recurrent_forward_step<RecurrentCell::lstm>
                                                    : recurrent_forward_step<RecurrentCell::gru>;
  launch_early(launch, streaming_blocks(launch, static_cast<int64_t>(a.batch) * a.hidden), kThreads, kernel,
               "recurrent_forward_step", a, t, recurrent);
}

void launch_recurrent_backward_step(const KernelLaunch& launch, const RecurrentBackwardArrays& a, int t, float* dh,
                                    float* dc) {
  const auto kernel = a.cell == RecurrentCell::lstm ? recurrent_backward_step<RecurrentCell::lstm>
                                                    : recurrent_backward_step<RecurrentCell::gru>;
  launch_early(launch, streaming_blocks(launch, static_cast<int64_t>(a.batch) * a.hidden), kThreads, kernel,
               "recurrent_backward_step", a, t, dh, dc);
}

void launch_recurrent_biases(const KernelLaunch& launch, RecurrentCell cell, const float* sums, int parts, int hidden,
                             float* b_input, float* b_hidden, bool accumulate) {
  launch_early(launch, num_blocks(int64_t{4} * hidden, kThreads), kThreads, recurrent_biases, "recurrent_biases",
               cell == RecurrentCell::lstm, sums, parts, hidden, b_input, b_hidden, accumulate);
}

void preload_recurrent(int device_index) {
  preload(device_index, recurrent_forward_step<RecurrentCell::lstm>, recurrent_forward_step<RecurrentCell::gru>,
          recurrent_backward_step<RecurrentCell::lstm>, recurrent_backward_step<RecurrentCell::gru>, recurrent_biases);
}

}  // namespace amdahl
