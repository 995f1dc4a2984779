// Recurrent layers on CUDA: kernels for one step between two GEMMs, which work for every shape, and persistent kernels
// that run a whole sequence in one launch.
//
// Rows of all arrays are [batch, steps], as those of x and y. `dgates` has four gradients before the activations per
// unit, in rows of 4 * hidden: of LSTM's i, f, g, o; of GRU's r, z, the recurrent part of n, and n. What GEMMs read is
// bf16 where persistent kernels compute in bf16, else f32.
#pragma once

#include <cstdint>

#include "ops/cuda_kernels.h"
#include "ops/recurrent/recurrent_ops.h"

namespace amdahl {

struct RecurrentForwardArrays {
  RecurrentCell cell;
  int batch, steps, hidden;
  bool last_step_only;
  const float *w_hidden, *b_input, *b_hidden;
  float* gates;     // [batch, steps, G * hidden] in: x w_input^T; out: activations
  float* h_before;  // [batch, steps, hidden] out: h of the step before, zero in the first
  float* cells;     // [batch, steps, hidden] out: c of LSTM, of GRU the recurrent part of n with its bias
  float* y;
};

struct RecurrentBackwardArrays {
  RecurrentCell cell;
  int batch, steps, hidden;
  bool last_step_only;
  const float* w_hidden;
  const float* gates;  // of forward, as the next two
  const float* h_before;
  const float* cells;
  const float* dy;
  float* dgates;  // [batch, steps, 4 * hidden]
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
//
// What only these kernels read is kept in the order of their lanes (cuda_recurrent_records.cuh). What GEMMs read has
// rows of 16-byte multiples: `operands`, h of the step before and, up to kMostInputs inputs, x, both padded with zeros;
// and `dgates`, the four gradients of a unit side by side.

inline constexpr int kMostPersistentUnits = 256;
inline constexpr int kMostInputs = 64;  // that forward multiplies itself

/// Sizes of the arrays of persistent kernels.
struct PersistentSizes {
  PersistentSizes() = default;
  explicit PersistentSizes(const RecurrentShape& s)
      : tiles(static_cast<int>((s.batch + 7) / 8)),
        groups(static_cast<int>((s.hidden + 7) / 8)),
        width(8 * groups + (s.input <= kMostInputs ? kMostInputs : 0)),
        units(static_cast<int>((s.hidden + 1) / 2 * 2)) {}
  int tiles = 0;   // of 8 batch rows
  int groups = 0;  // of 8 units
  int width = 0;   // elements of a row of operands; x follows 8 * groups elements of h
  int units = 0;   // of a row of dgates
};

struct PersistentForwardArrays {
  RecurrentCell cell;
  int batch, steps, hidden;
  bool last_step_only, keep;  // keep: for backward; else the kernel writes y only
  PersistentSizes sizes;
  const float* w_input;  // [G * hidden, input]
  int input;
  const float *w_hidden, *b_input, *b_hidden;
  const float* products;  // x w_input^T [batch, steps, G * hidden], unless the kernel multiplies x
  void* operands;         // [batch, steps, width]; in: x; out: h of the step before
  void* gates;            // records
  float* cells;           // records of LSTM's c
  float* y;
};

struct PersistentBackwardArrays {
  RecurrentCell cell;
  int batch, steps, hidden;
  bool last_step_only;
  PersistentSizes sizes;
  const float* w_hidden;
  const void *operands, *gates;  // of forward, as cells
  const float *cells, *dy;
  void* dgates;  // [batch, steps, units, 4]
};

/// How a persistent kernel runs one problem.
struct PersistentPlan {
  int clusters = 0;  // 0: the kernel does not apply
  int blocks = 0;    // of a cluster
  int tiles = 0;     // of 8 batch rows: computed together
  int sets = 1;      // of warps, each with its own chunks
  int chunks = 0;    // of `tiles`, in turn by the same cluster
  size_t shared_bytes = 0;
};

/// Loads the kernel's code, also inside a capture. Not applicable in a build without architecture 9.0, above
/// kMostPersistentUnits, and on a GPU or a partition of it that cannot hold a cluster.
PersistentPlan plan_persistent_forward(const KernelLaunch& launch, MathMode math, const RecurrentShape& shape);
PersistentPlan plan_persistent_backward(const KernelLaunch& launch, MathMode math, const RecurrentShape& shape);
void launch_persistent_forward(const KernelLaunch& launch, MathMode math, const PersistentPlan& plan,
                               const PersistentForwardArrays& a);
/// Number of partial sums that launch_persistent_backward writes to `bias_sums` [parts, 4 * hidden].
int persistent_bias_parts(MathMode math, const PersistentPlan& plan);
void launch_persistent_backward(const KernelLaunch& launch, MathMode math, const PersistentPlan& plan,
                                const PersistentBackwardArrays& a, float* bias_sums);

/// x [rows, input] to its columns of operands, of f32 or bf16, and zeros to the rest of them.
void launch_take_inputs(const KernelLaunch& launch, const float* x, int64_t rows, int input,
                        const PersistentSizes& sizes, void* operands, DType type);
/// w_input [G * hidden, input] to rows in the order of dgates [4 * units, input], of f32 or bf16; zeros elsewhere.
void launch_order_weights(const KernelLaunch& launch, RecurrentCell cell, const float* w_input, int hidden, int units,
                          int input, void* out, DType type);

/// Gradients of weights in the order of dgates: dgates^T h [4 * units, stride_hidden] and dgates^T x
/// [4 * units, stride_input].
struct OrderedGradients {
  RecurrentCell cell;
  int hidden, input, units;
  const float* from_hidden;
  const float* from_input;
  int stride_hidden, stride_input;
  float *w_hidden, *w_input;
  bool accumulate;
};
void launch_take_gradients(const KernelLaunch& launch, const OrderedGradients& a);
void preload_recurrent_order(int device_index);

}  // namespace amdahl
