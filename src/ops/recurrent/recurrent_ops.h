// RecurrentOps: a layer of LSTM or GRU cells over a sequence, forward and backward through time.
//
// Definitions are PyTorch's (torch.nn.LSTM, torch.nn.GRU): gates in the order i, f, g, o and r, z, n; both have two
// biases; the GRU applies its reset gate after the recurrent GEMM and its bias. The initial state is zero. Parameters,
// inputs, outputs and gradients are f32; `type` is what the GEMMs multiply.
#pragma once

#include <cstdint>

#include "amdahl/tensor.h"
#include "device/device.h"

namespace amdahl {

enum class RecurrentCell { lstm, gru };
inline constexpr int64_t num_gates(RecurrentCell cell) { return cell == RecurrentCell::lstm ? 4 : 3; }

struct RecurrentShape {
  RecurrentCell cell;
  int64_t batch, steps, input, hidden;
  bool last_step_only = false;  // the output is that of the last step
  DType type = DType::f32;
};

/// G = num_gates. Pointers to parameters, or to their gradients.
template <class Float>
struct RecurrentWeights {
  Float* w_input;   // [G * hidden, input]
  Float* w_hidden;  // [G * hidden, hidden]
  Float* b_input;   // [G * hidden]
  Float* b_hidden;  // [G * hidden]
};

struct RecurrentForward {
  RecurrentShape shape;
  RecurrentWeights<const float> weights;
  const float* x;  // [batch, steps, input]
  float* y;        // [batch, steps, hidden], or [batch, hidden] with last_step_only
  void* saved;     // saved_bytes(shape), for backward; null: no backward follows
};

/// Gradients of weights are set, or added to with `accumulate`.
struct RecurrentBackward {
  RecurrentShape shape;
  RecurrentWeights<const float> weights;
  RecurrentWeights<float> gradients;
  const float* x;
  const float* y;
  const float* dy;  // like y
  const void* saved;
  float* dx;  // [batch, steps, input]; null: not computed
  bool accumulate = false;
};

/// Cells whose units are divided among ranks: a rank computes the units [first, first + held), from the states of all
/// units of the step before. Parameters and gradients are the rows of these units' gates: [G * held, input],
/// [G * held, hidden], [G * held].
struct RecurrentShard {
  RecurrentShape shape;  // of all units
  int64_t held, first;
  RecurrentWeights<const float> weights;
  const float* x;  // [batch, steps, input]
  void* saved;     // RecurrentShardOps::saved_bytes
};

/// The calls for a step lie between the exchanges of the ranks. All enqueue on `stream`.
class RecurrentShardOps {
 public:
  virtual ~RecurrentShardOps() = default;
  /// Whether the GEMMs of shapes of that type are computed here: in this type, or in a more precise one.
  virtual bool takes(DType type) const = 0;
  /// Bytes that forward keeps for backward.
  virtual int64_t saved_bytes(const RecurrentShard& a) const = 0;
  /// The input's part of all gates. Then for each step from 0: `step` sets mine [batch, held], the states of the units
  /// here, and `take_states` reads those of all ranks, all [ranks, batch, held], and sets the step's y.
  virtual void begin(Stream& stream, const RecurrentShard& a) = 0;
  virtual void step(Stream& stream, const RecurrentShard& a, int64_t t, float* mine) = 0;
  virtual void take_states(Stream& stream, const RecurrentShard& a, int64_t t, const float* all, float* y) = 0;

  /// Memory of a backward pass: d_gates [steps * batch, 4 * held], d_own and d_cell [batch, held], and d_states
  /// [batch, hidden].
  struct Work {
    float *d_gates, *d_own, *d_cell, *d_states;
  };
  /// For each step from the last one: reads d_states, summed over the ranks since the call for the step after, and sets
  /// it to this rank's part of the gradient of the states before; at step 0 it is not set.
  virtual void step_gradients(Stream& stream, const RecurrentShard& a, int64_t t, const float* dy,
                              const Work& work) = 0;
  /// Gradients of the parameters, set or added to with `accumulate`, and this rank's part of dx; null: not computed.
  virtual void finish_gradients(Stream& stream, const RecurrentShard& a, const Work& work,
                                const RecurrentWeights<float>& gradients, float* dx, bool accumulate) = 0;
};

class RecurrentOps {
 public:
  virtual ~RecurrentOps() = default;
  /// For cells whose units are divided among ranks.
  virtual RecurrentShardOps& shards() = 0;
  /// Bytes that forward keeps for backward.
  virtual int64_t saved_bytes(const RecurrentShape& shape) const = 0;
  virtual void recurrent_forward(Stream& stream, const RecurrentForward& a) = 0;
  virtual void recurrent_backward(Stream& stream, const RecurrentBackward& a) = 0;
};

}  // namespace amdahl
