#include "model/parameter_layout.h"

#include <algorithm>

namespace amdahl {
namespace {

constexpr int64_t kAlignFloats = 64;  // 256 bytes

int64_t aligned(int64_t floats) { return (floats + kAlignFloats - 1) / kAlignFloats * kAlignFloats; }

/// Places the tensors of a layer from float `at` on, the last one first; returns the float after them.
int64_t place_layer(LayerSlice& slice, const std::vector<ParameterSpec>& parameters, int64_t at) {
  slice.begin = at;
  slice.tensors.resize(parameters.size());
  for (size_t t = parameters.size(); t-- > 0;) {
    slice.tensors[t] = {parameters[t], at, parameters[t], {}};
    at += aligned(parameters[t].stored_floats());
  }
  return slice.end = at;
}

/// What ParameterStorage needs to know of a layer that is not dense.
void mark_tensors(LayerSlice& slice, const ModelSpec& spec, size_t layer) {
  const LayerKind kind = spec.layers[layer].kind;
  slice.is_tied_table = layer == 0 && kind == LayerKind::embedding && spec.layers.back().tied;
  const size_t first = kind == LayerKind::embedding ? 1 : 2;  // positions of an embedding or a projection
  if (kind != LayerKind::embedding && kind != LayerKind::projection) return;
  for (size_t t = first; t < slice.tensors.size(); ++t) slice.tensors[t].is_partly_written = true;
}

void name_dense(LayerSlice& slice) {
  slice.weight = slice.tensors[0].begin;
  if (slice.tensors.size() > 1) slice.bias = slice.tensors[1].begin;
}

RowRange only_part(const TensorShard& shard, int axis, int64_t extent) {
  return shard.axis == axis ? shard.parts.front() : RowRange{0, extent};
}

}  // namespace

ParameterLayout make_layout(const ModelSpec& spec, LayerRange range, const std::vector<WeightShard>& shards) {
  ParameterLayout layout;
  layout.range = {range.first, std::min(range.last, spec.layers.size())};
  layout.layers.resize(spec.layers.size());
  for (size_t i = layout.range.last; i-- > layout.range.first;) {
    LayerSlice& slice = layout.layers[i];
    const bool dense = spec.layers[i].kind == LayerKind::dense;
    std::vector<ParameterSpec> parameters = parameters_of(spec.layers[i], spec.layer_input_shape(i));
    if (dense) {
      slice.shard = shards.empty() ? WeightShard{0, spec.layers[i].units, 0, spec.layer_input_width(i)} : shards[i];
      parameters[0].shape = {slice.shard.rows(), slice.shard.columns()};
      if (parameters.size() > 1) parameters[1].shape = {slice.shard.rows()};
    }
    layout.num_floats = place_layer(slice, parameters, layout.num_floats);
    mark_tensors(slice, spec, i);
    if (!dense) continue;
    name_dense(slice);
    const WeightShard& held = slice.shard;
    const int64_t width = spec.layer_input_width(i);
    TensorSlice& weight = slice.tensors[0];
    weight.whole.shape = {spec.layers[i].units, width};
    if (held.columns() < width)
      weight.shard = {1, {{held.column_begin, held.column_end}}};
    else if (held.rows() < spec.layers[i].units)
      weight.shard = {0, {{held.row_begin, held.row_end}}};
    if (slice.tensors.size() < 2) continue;
    slice.tensors[1].whole.shape = {spec.layers[i].units};
    if (weight.shard.axis == 0) slice.tensors[1].shard = weight.shard;
  }
  return layout;
}

ParameterLayout make_layout(const ModelSpec& spec, const ModelPart& part) {
  ParameterLayout layout;
  layout.layers.resize(spec.layers.size());
  const auto end_of = [&](const LayerRange& stage) { return std::min(stage.last, spec.layers.size()); };
  layout.range = {part.stages.front().first, end_of(part.stages.back())};
  for (size_t stage = part.stages.size(); stage-- > 0;)
    for (size_t i = end_of(part.stages[stage]); i-- > part.stages[stage].first;) {
      LayerSlice& slice = layout.layers[i];
      slice.is_table_copy = spec.layers[i].tied && layout.range.first > 0;
      const size_t source = slice.is_table_copy ? 0 : i;  // the layer whose parameters these are
      std::vector<ParameterSpec> held = shard_parameters(spec, source, part.roles[source], part.tensor);
      std::vector<ParameterSpec> whole = parameters_of(spec.layers[source], spec.layer_input_shape(source));
      const std::vector<TensorShard> shards = parameter_shards(spec, source, part.roles[source], part.tensor);
      if (slice.is_table_copy) held.resize(1), whole.resize(1);
      layout.num_floats = place_layer(slice, held, layout.num_floats);
      for (size_t t = 0; t < held.size(); ++t) slice.tensors[t].whole = whole[t], slice.tensors[t].shard = shards[t];
      mark_tensors(slice, spec, i);
      if (spec.layers[i].kind != LayerKind::dense) continue;
      name_dense(slice);
      const int64_t units = spec.layers[i].units, width = spec.layer_input_width(i);
      const RowRange rows = only_part(shards[0], 0, units), columns = only_part(shards[0], 1, width);
      slice.shard = {rows.begin, rows.end, columns.begin, columns.end};
    }
  return layout;
}

void for_each_run(const TensorSlice& tensor, const std::function<void(int64_t, int64_t, int64_t)>& copy) {
  const int64_t count = tensor.whole.num_parameters();
  const TensorShard& shard = tensor.shard;
  if (shard.axis < 0) return copy(0, 0, count);
  const int64_t rows = tensor.whole.shape[0], width = count / rows;
  int64_t at = 0;
  if (shard.axis == 0) {
    for (const RowRange& part : shard.parts) {
      const int64_t end = std::min(part.end, rows);  // beyond: padding
      if (end > part.begin) copy(part.begin * width, at * width, (end - part.begin) * width);
      at += part.rows();
    }
    return;
  }
  const int64_t extent = tensor.whole.shape[1], inner = width / extent;
  int64_t held = 0;
  for (const RowRange& part : shard.parts) held += part.rows();
  for (int64_t row = 0; row < rows; ++row) {
    at = row * held;
    for (const RowRange& part : shard.parts) {
      copy((row * extent + part.begin) * inner, at * inner, part.rows() * inner);
      at += part.rows();
    }
  }
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
