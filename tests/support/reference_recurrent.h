// A recurrent layer and its gradients in float64, one sample and one unit at a time: written from PyTorch's definition
// of LSTM and GRU, independently of the ops.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/recurrent/recurrent_ops.h"

namespace amdahl::test {

/// Everything that goes into a layer and its backward pass, in the layouts of RecurrentForward and RecurrentBackward.
template <class Float>
struct RecurrentInputs {
  std::vector<Float> w_input, w_hidden, b_input, b_hidden, x, dy;
};

struct RecurrentResults {
  std::vector<double> y;
  RecurrentInputs<double> gradients;  // dx in `x`; `dy` stays empty
};

/// Number of elements of y: [batch, steps, hidden], or [batch, hidden] with last_step_only.
inline int64_t output_elements(const RecurrentShape& s) {
  return s.batch * (s.last_step_only ? 1 : s.steps) * s.hidden;
}

/// Random values: inputs and dy normal, parameters uniform with PyTorch's initial range, 1 / sqrt(hidden).
RecurrentInputs<float> random_recurrent(const RecurrentShape& shape, uint64_t seed);

/// y, and the gradients of sum(y * dy).
RecurrentResults recurrent_reference(const RecurrentShape& shape, const RecurrentInputs<double>& in);
RecurrentResults recurrent_reference(const RecurrentShape& shape, const RecurrentInputs<float>& in);

}  // namespace amdahl::test
