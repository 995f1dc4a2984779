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
    const bool dense = spec.layers[i].kind == LayerKind::dense;
    std::vector<ParameterSpec> parameters = parameters_of(spec.layers[i], spec.layer_input_shape(i));
    if (dense) {
      slice.shard = shards.empty() ? WeightShard{0, spec.layers[i].units, 0, spec.layer_input_width(i)} : shards[i];
      parameters[0].shape = {slice.shard.rows(), slice.shard.columns()};
      if (parameters.size() > 1) parameters[1].shape = {slice.shard.rows()};
    }
    slice.begin = at;
    slice.tensors.resize(parameters.size());
    for (size_t t = parameters.size(); t-- > 0;) {
      slice.tensors[t] = {parameters[t], at};
      at += aligned(parameters[t].stored_floats());
    }
    slice.end = at;
    if (!dense) continue;
    slice.weight = slice.tensors[0].begin;
    if (parameters.size() > 1) slice.bias = slice.tensors[1].begin;
  }
  layout.num_floats = at;
  return layout;
}

std::vector<GradientPiece> make_pieces(const ParameterLayout& layout, int64_t max_bytes) {
  std::vector<GradientPiece> pieces;
  for (size_t i = layout.range.last; i-- > layout.range.first;) {
    const LayerSlice& slice = layout.layers[i];
    if (slice.begin == slice.end) continue;
    if (slice.shard.rows() == 0 && slice.bias < 0) {  // not a dense layer
      pieces.push_back({i, 0, 0, slice.begin, slice.end});
      continue;
    }
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
