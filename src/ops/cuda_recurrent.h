// Recurrent layers on CUDA: kernels for one step between two GEMMs, which work for every shape, and persistent kernels
// that run a whole sequence in one launch.
//
// Rows of all arrays are [batch, steps], as those of x and y. `dgates` has four gradients before the activations per
// unit, in rows of 4 * hidden: of LSTM's i, f, g, o; of GRU's r, z, the recurrent part of n, and n. What later products
// read, h_before and dgates, is bf16 where persistent kernels compute in bf16, else f32.
#pragma once

#include <cstdint>

#include "ops/cuda_kernels.h"
#include "ops/recurrent_ops.h"

namespace amdahl {

struct RecurrentForwardArrays {
  RecurrentCell cell;
  int batch, steps, input, hidden;
  bool last_step_only;
  const float *x, *w_input, *w_hidden, *b_input, *b_hidden;
  float* gates;    // [batch, steps, G * hidden] in: x w_input^T, unless the kernel computes that; out: activations
  void* h_before;  // [batch, steps, hidden] out: h of the step before, zero in the first
  float* cells;    // [batch, steps, hidden] out: c of LSTM, of GRU the recurrent part of n with its bias
  float* y;
  bool keep;  // false: the persistent kernel writes y only
};

struct RecurrentBackwardArrays {
  RecurrentCell cell;
  int batch, steps, hidden;
  bool last_step_only;
  const float* w_hidden;
  const float* gates;  // of forward, as the next two
  const void* h_before;
  const float* cells;
  const float* dy;
  void* dgates;  // [batch, steps, 4 * hidden]
};

/// Step t. `recurrent`: h w_hidden^T [batch, G * hidden], null in the first step.
void launch_recurrent_forward_step(const KernelLaunch& launch, const RecurrentForwardArrays& a, int t,
                                   const float* recurrent);
/// Step t of backward. dh, dc [batch, hidden]: gradients that the later step passed on, not read in the last step.
/// On return LSTM has written dc, and GRU the part of dh that does not pass through the gates.
void launch_recurrent_backward_step(const KernelLaunch& launch, const RecurrentBackwardArrays& a, int t, float* dh,
                                    float* dc);
/// Bias gradients from `parts` sums [parts, 4 * hidden] over rows of dgates.
void launch_recurrent_biases(const KernelLaunch& launch, RecurrentCell cell, const float* sums, int parts, int hidden,
                             float* b_input, float* b_hidden, bool accumulate);
void preload_recurrent(int device_index);

// The persistent kernels: the recurrent weights stay in the registers of a cluster of blocks, each of which computes 32
// units for the batch rows of the cluster; h or partial sums of its gradient are exchanged through distributed shared
// memory in every step. Sums are taken in a fixed order: reruns are bit-equal.

/// How a persistent kernel runs one problem.
struct PersistentPlan {
  int clusters = 0;  // 0: the kernel does not apply
  int blocks = 0;    // of a cluster
  int tiles = 0;     // of 8 batch rows: computed together
  int chunks = 0;    // of `tiles`, in turn by the same cluster
  size_t shared_bytes = 0;
  bool takes_input = false;  // forward: computes x w_input^T itself
};

inline constexpr int kMostPersistentUnits = 256;

/// Loads the kernel's code, also inside a capture. Not applicable in a build without architecture 9.0, above
/// kMostPersistentUnits, and on a GPU or a partition of it that cannot hold a cluster.
PersistentPlan plan_persistent_forward(const KernelLaunch& launch, MathMode math, const RecurrentShape& shape);
PersistentPlan plan_persistent_backward(const KernelLaunch& launch, MathMode math, const RecurrentShape& shape);
void launch_persistent_forward(const KernelLaunch& launch, MathMode math, const PersistentPlan& plan,
                               const RecurrentForwardArrays& a);
/// Number of partial sums that launch_persistent_backward writes to `bias_sums` [parts, 4 * hidden].
int persistent_bias_parts(MathMode math, const PersistentPlan& plan);
void launch_persistent_backward(const KernelLaunch& launch, MathMode math, const PersistentPlan& plan,
                                const RecurrentBackwardArrays& a, float* bias_sums);

}  // namespace amdahl
