// Where each layer's parameters lie in one flat array of floats; gradients and optimizer state share the layout.
//
// Layers come last first, because backward finishes them in that order: a run of neighbouring layers is then one
// contiguous all-reduce. Every tensor starts on a 256-byte boundary; the padding stays zero.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "amdahl/model_spec.h"

namespace amdahl {

/// Floats [begin, end) of the layout.
struct FloatRange {
  int64_t begin = 0, end = 0;
  int64_t floats() const { return end - begin; }
};

struct LayerSlice {
  int64_t begin = 0, end = 0;  // floats, [begin, end) covers weight, bias and padding
  int64_t weight = 0;          // offset of w[units, input_width]
  int64_t bias = -1;           // offset of b[units], -1 without bias
};

/// Layers [first, last) of a model.
struct LayerRange {
  size_t first = 0, last = SIZE_MAX;  // cut to the model's layers
};

struct ParameterLayout {
  LayerRange range;                // whose parameters the array holds
  std::vector<LayerSlice> layers;  // by layer index, first layer first; empty outside of the range
  int64_t num_floats = 0;
};

ParameterLayout make_layout(const ModelSpec& spec, LayerRange range = {});

/// A part of one layer's gradients that is computed, and can be sent, by itself: some rows of the weight. The last
/// piece of a layer carries its bias and padding too.
struct GradientPiece {
  size_t layer = 0;
  int64_t row_begin = 0, row_end = 0;  // of w[units, input_width]
  int64_t begin = 0, end = 0;          // floats of the layout
};

inline constexpr int64_t kWholeLayers = INT64_MAX;  // as max_bytes: no layer is cut
/// All gradients in layout order: whole layers, or runs of rows of at most about `max_bytes`.
std::vector<GradientPiece> make_pieces(const ModelSpec& spec, const ParameterLayout& layout, int64_t max_bytes);

}  // namespace amdahl
