// Kernels for one step of recurrent layers of which this rank computes the units [first, first + held).
//
// Rows of all arrays but those of one step are [batch, steps], as in cuda_recurrent.h.
#pragma once

#include "ops/cuda_kernels.h"
#include "ops/recurrent/recurrent_ops.h"

namespace amdahl {

struct RecurrentShardArrays {
  RecurrentCell cell;
  int batch, steps, hidden, held, first;
  bool last_step_only;
  const float *b_input, *b_hidden;  // [G * held]
  float* gates;                     // [batch, steps, G * held]: before forward x w_input^T, after it activations
  float* cells;                     // [batch, steps, held]: c of LSTM, of GRU the recurrent part of n with its bias
  float* h_before;                  // [batch, steps, hidden]: h of all units in the step before, zero in the first
};

/// Step t. `recurrent`: h w_hidden^T [batch, G * held], null in the first step. Sets mine [batch, held].
void launch_shard_forward_step(const KernelLaunch& launch, const RecurrentShardArrays& a, int t, const float* recurrent,
                               float* mine);
/// The states after step t of all ranks, all [ranks, batch, held], become h_before of step t + 1 and the step's y.
void launch_shard_states(const KernelLaunch& launch, const RecurrentShardArrays& a, int t, const float* all, float* y);
/// Step t of backward: dgates [batch, steps, 4 * held] from d_states [batch, hidden] of the later step; d_own and
/// d_cell [batch, held] pass from step to step.
void launch_shard_backward_step(const KernelLaunch& launch, const RecurrentShardArrays& a, int t, const float* dy,
                                const RecurrentShardOps::Work& work);
void preload_recurrent_shards(int device_index);

}  // namespace amdahl
