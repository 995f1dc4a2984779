#include "model/parameter_layout.h"

#include <algorithm>

namespace amdahl {
namespace {

constexpr int64_t kAlignFloats = 64;  // 256 bytes

int64_t aligned(int64_t floats) { return (floats + kAlignFloats - 1) / kAlignFloats * kAlignFloats; }

}  // namespace

ParameterLayout make_layout(const ModelSpec& spec, LayerRange range, const std::vector<WeightShard>& shards) {
  ParameterLayout layout;
  layout.range = {range.first, std::min(range.last, spec.layers.size())};
  layout.layers.resize(spec.layers.size());
  int64_t at = 0;
  for (size_t i = layout.range.last; i-- > layout.range.first;) {
    LayerSlice& slice = layout.layers[i];
    slice.shard = shards.empty() ? WeightShard{0, spec.layers[i].units, 0, spec.layer_input_width(i)} : shards[i];
    slice.begin = at;
    if (spec.layers[i].bias) {
      slice.bias = at;
      at += aligned(slice.shard.rows());
    }
    slice.weight = at;
    at += aligned(slice.shard.rows() * slice.shard.columns());
    slice.end = at;
  }
  layout.num_floats = at;
  return layout;
}

std::vector<GradientPiece> make_pieces(const ParameterLayout& layout, int64_t max_bytes) {
  std::vector<GradientPiece> pieces;
  for (size_t i = layout.range.last; i-- > layout.range.first;) {
    const LayerSlice& slice = layout.layers[i];
    const int64_t width = slice.shard.columns(), units = slice.shard.rows();
    const int64_t fitting = max_bytes / (width * static_cast<int64_t>(sizeof(float)));
    const bool output = i + 1 == layout.range.last;  // never split: its bias gradient sums over the whole layer
    const int64_t rows = output ? units : std::max(kAlignFloats, fitting / kAlignFloats * kAlignFloats);  // aligned
    for (int64_t row = 0; row < units; row += rows) {
      const int64_t row_end = std::min(units, row + rows);
      pieces.push_back({i, row, row_end, row == 0 ? slice.begin : slice.weight + row * width,
                        row_end == units ? slice.end : slice.weight + row_end * width});
    }
  }
  return pieces;
}

}  // namespace amdahl
