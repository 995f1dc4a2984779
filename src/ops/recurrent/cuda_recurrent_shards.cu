#include "ops/recurrent/cuda_recurrent_shards.h"

#include "ops/cuda_launch.cuh"
#include "ops/recurrent/cuda_recurrent_cell.cuh"

namespace amdahl {
namespace {

template <RecurrentCell kCell>
__global__ void __launch_bounds__(kThreads)
    shard_forward_step(RecurrentShardArrays a, int t, const float* recurrent, float* mine) {
  constexpr int kGates = kNumGates<kCell>;
  wait_for_predecessor();
  const int64_t count = static_cast<int64_t>(a.batch) * a.held;
  for (int64_t i = thread_index(); i < count; i += thread_count()) {
    const int64_t batch = i / a.held, row = batch * a.steps + t;
    const int unit = static_cast<int>(i % a.held);
    float* const gates = a.gates + row * kGates * a.held + unit;
    float before[4];
    sum_before<kCell>(gates, recurrent ? recurrent + batch * kGates * a.held + unit : nullptr, a.b_input + unit,
                      a.b_hidden + unit, a.held, before);
    float state = 0.0f;
    if (t > 0)
      state = kCell == RecurrentCell::lstm ? a.cells[(row - 1) * a.held + unit]
                                           : a.h_before[row * a.hidden + a.first + unit];
    const CellOutput out = forward_cell<kCell>(before, state);
#pragma unroll
    for (int gate = 0; gate < kGates; ++gate) gates[static_cast<int64_t>(gate) * a.held] = out.gates[gate];
    a.cells[row * a.held + unit] = out.kept;
    mine[i] = out.h;
  }
}

__global__ void __launch_bounds__(kThreads) shard_states(RecurrentShardArrays a, int t, const float* all, float* y) {
  wait_for_predecessor();
  const int64_t count = static_cast<int64_t>(a.batch) * a.hidden;
  const bool is_last = t + 1 == a.steps;
  for (int64_t i = thread_index(); i < count; i += thread_count()) {
    const int64_t batch = i / a.hidden, row = batch * a.steps + t;
    const int unit = static_cast<int>(i % a.hidden), rank = unit / a.held;
    const float h = all[(static_cast<int64_t>(rank) * a.batch + batch) * a.held + unit % a.held];
    if (t == 0) a.h_before[row * a.hidden + unit] = 0.0f;
    if (!is_last) a.h_before[(row + 1) * a.hidden + unit] = h;
    if (!a.last_step_only) y[row * a.hidden + unit] = h;
    if (a.last_step_only && is_last) y[i] = h;
  }
}

template <RecurrentCell kCell>
__global__ void __launch_bounds__(kThreads)
    shard_backward_step(RecurrentShardArrays a, int t, const float* dy, RecurrentShardOps::Work work) {
  constexpr int kGates = kNumGates<kCell>;
  constexpr bool kLstm = kCell == RecurrentCell::lstm;
  wait_for_predecessor();
  const int64_t count = static_cast<int64_t>(a.batch) * a.held;
  const bool is_last = t + 1 == a.steps;
  float* const passed = kLstm ? work.d_cell : work.d_own;
  for (int64_t i = thread_index(); i < count; i += thread_count()) {
    const int64_t batch = i / a.held, row = batch * a.steps + t;
    const int unit = static_cast<int>(i % a.held);
    CellSaved saved = {};
#pragma unroll
    for (int gate = 0; gate < kGates; ++gate) saved.gates[gate] = a.gates[(row * kGates + gate) * a.held + unit];
    saved.kept = a.cells[row * a.held + unit];
    if (t > 0) saved.before = kLstm ? a.cells[(row - 1) * a.held + unit] : a.h_before[row * a.hidden + a.first + unit];
    if (!a.last_step_only) saved.dy = dy[row * a.hidden + a.first + unit];
    if (a.last_step_only && is_last) saved.dy = dy[batch * a.hidden + a.first + unit];
    const float recurrent = is_last ? 0.0f : work.d_states[batch * a.hidden + a.first + unit];
    float state = is_last ? 0.0f : passed[i], d[4];
    CellFactors<kCell>(saved).apply(recurrent, state, d);
    passed[i] = state;
#pragma unroll
    for (int gate = 0; gate < 4; ++gate) work.d_gates[(row * 4 + gate) * a.held + unit] = d[gate];
  }
}

}  // namespace

void launch_shard_forward_step(const KernelLaunch& launch, const RecurrentShardArrays& a, int t, const float* recurrent,
                               float* mine) {
  const auto kernel =
      a.cell == RecurrentCell::lstm ? shard_forward_step<RecurrentCell::lstm> : shard_forward_step<RecurrentCell::gru>;
  launch_early(launch, streaming_blocks(launch, static_cast<int64_t>(a.batch) * a.held), kThreads, kernel,
               "shard_forward_step", a, t, recurrent, mine);
}

void launch_shard_states(const KernelLaunch& launch, const RecurrentShardArrays& a, int t, const float* all, float* y) {
  launch_early(launch, streaming_blocks(launch, static_cast<int64_t>(a.batch) * a.hidden), kThreads, shard_states,
               "shard_states", a, t, all, y);
}

void launch_shard_backward_step(const KernelLaunch& launch, const RecurrentShardArrays& a, int t, const float* dy,
                                const RecurrentShardOps::Work& work) {
  const auto kernel = a.cell == RecurrentCell::lstm ? shard_backward_step<RecurrentCell::lstm>
                                                    : shard_backward_step<RecurrentCell::gru>;
  launch_early(launch, streaming_blocks(launch, static_cast<int64_t>(a.batch) * a.held), kThreads, kernel,
               "shard_backward_step", a, t, dy, work);
}

void preload_recurrent_shards(int device_index) {
  preload(device_index, shard_forward_step<RecurrentCell::lstm>, shard_forward_step<RecurrentCell::gru>, shard_states,
          shard_backward_step<RecurrentCell::lstm>, shard_backward_step<RecurrentCell::gru>);
}

}  // namespace amdahl
