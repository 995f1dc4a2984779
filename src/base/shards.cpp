#include "base/shards.h"

#include <fmt/format.h>

#include <algorithm>

namespace amdahl {
namespace {

constexpr int64_t kGroup = 4;  // units that share one dropout draw

/// A whole shard of each of `count` parameters.
std::vector<TensorShard> whole_shards(size_t count) { return std::vector<TensorShard>(count); }

}  // namespace

std::vector<TensorRole> tensor_roles(const ModelSpec& model, const std::vector<LayerRange>& stages) {
  std::vector<TensorRole> roles(model.layers.size(), TensorRole::whole);
  const std::vector<LayerRange> ranges = stages.empty() ? std::vector<LayerRange>{{}} : stages;
  for (const LayerRange& range : ranges) {
    const size_t last = std::min(range.last, model.layers.size());
    const auto is_dense = [&](size_t i) { return i < last && model.layers[i].kind == LayerKind::dense; };
    for (size_t i = range.first; i < last; ++i) {
      if (!is_dense(i) || !is_dense(i + 1)) continue;
      roles[i] = TensorRole::column;
      roles[++i] = TensorRole::row;
    }
  }
  return roles;
}

Feasibility tensor_feasible(const ModelSpec& model, int num_ranks, const std::vector<LayerRange>& stages) {
  if (num_ranks < 1) return {false, fmt::format("{} tensor-parallel ranks", num_ranks)};
  if (num_ranks == 1) return {};
  if (!model.is_mlp())
    return {false, fmt::format("model '{}' has layers that tensor parallelism does not divide", model.name)};
  const std::vector<TensorRole> roles = tensor_roles(model, stages);
  for (size_t i = 0; i < roles.size(); ++i) {
    const int64_t groups = (model.layers[i].units + kGroup - 1) / kGroup;
    if (roles[i] == TensorRole::column && groups < num_ranks)
      return {false,
              fmt::format("layer {} has {} units: at most {} tensor-parallel ranks", i, model.layers[i].units, groups)};
  }
  return {};
}

RowRange column_units(int64_t units, const TensorPlace& place) {
  const RowRange groups = even_share((units + kGroup - 1) / kGroup, place.size, place.rank);
  return {std::min(units, groups.begin * kGroup), std::min(units, groups.end * kGroup)};
}

std::vector<TensorShard> parameter_shards(const ModelSpec& model, size_t layer, TensorRole role,
                                          const TensorPlace& place) {
  const LayerSpec& spec = model.layers[layer];
  const size_t count = parameters_of(spec, model.layer_input_shape(layer)).size();
  std::vector<TensorShard> shards = whole_shards(count);
  if (role == TensorRole::whole || place.size == 1) return shards;
  if (role == TensorRole::column) {
    for (TensorShard& shard : shards) shard = {0, {column_units(spec.units, place)}};
  } else if (role == TensorRole::row) {
    shards[0] = {1, {column_units(model.layer_input_width(layer), place)}};
  }
  return shards;
}

std::vector<ParameterSpec> shard_parameters(const ModelSpec& model, size_t layer, TensorRole role,
                                            const TensorPlace& place) {
  std::vector<ParameterSpec> parameters = parameters_of(model.layers[layer], model.layer_input_shape(layer));
  const std::vector<TensorShard> shards = parameter_shards(model, layer, role, place);
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (shards[i].axis < 0) continue;
    int64_t held = 0;
    for (const RowRange& part : shards[i].parts) held += part.rows();
    parameters[i].shape[static_cast<size_t>(shards[i].axis)] = held;
    if (shards[i].axis == 0) parameters[i].padded_rows = 0;
  }
  return parameters;
}

}  // namespace amdahl
