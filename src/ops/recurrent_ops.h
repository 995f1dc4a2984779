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

class RecurrentOps {
 public:
  virtual ~RecurrentOps() = default;
  /// Bytes that forward keeps for backward.
  virtual int64_t saved_bytes(const RecurrentShape& shape) const = 0;
  virtual void recurrent_forward(Stream& stream, const RecurrentForward& a) = 0;
  virtual void recurrent_backward(Stream& stream, const RecurrentBackward& a) = 0;
};

}  // namespace amdahl
