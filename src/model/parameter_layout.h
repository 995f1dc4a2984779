// Where each layer's parameters lie in one flat array of floats; gradients and optimizer state share the layout.
//
// Layers come last first, because backward finishes them in that order: a run of neighbouring layers is then one
// contiguous all-reduce. The array begins with a block for the step's statistics (loss, correct rows), so that they travel
// with the first bucket. Every tensor starts on a 256-byte boundary; the padding stays zero.
#pragma once

#include <cstdint>
#include <vector>

#include "amdahl/model_spec.h"

namespace amdahl {

struct LayerSlice {
  int64_t begin = 0, end = 0;  // floats, [begin, end) covers weight, bias and padding
  int64_t weight = 0;          // offset of w[units, input_width]
  int64_t bias = -1;           // offset of b[units], -1 without bias
};

struct ParameterLayout {
  std::vector<LayerSlice> layers;  // by layer index, first layer first
  int64_t num_floats = 0;
  static constexpr int64_t kStatsFloats = 64;  // at offset 0: [0] loss, [1] correct rows
};

ParameterLayout make_layout(const ModelSpec& spec);

}  // namespace amdahl
