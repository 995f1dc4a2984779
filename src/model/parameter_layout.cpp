#include "model/parameter_layout.h"

namespace amdahl {
namespace {

constexpr int64_t kAlignFloats = 64;  // 256 bytes

int64_t aligned(int64_t floats) { return (floats + kAlignFloats - 1) / kAlignFloats * kAlignFloats; }

}  // namespace

ParameterLayout make_layout(const ModelSpec& spec) {
  ParameterLayout layout;
  layout.layers.resize(spec.layers.size());
  int64_t at = ParameterLayout::kStatsFloats;
  for (size_t i = spec.layers.size(); i-- > 0;) {
    LayerSlice& slice = layout.layers[i];
    slice.begin = slice.weight = at;
    at += aligned(spec.layers[i].units * spec.layer_input_width(i));
    if (spec.layers[i].bias) {
      slice.bias = at;
      at += aligned(spec.layers[i].units);
    }
    slice.end = at;
  }
  layout.num_floats = at;
  return layout;
}

}  // namespace amdahl
