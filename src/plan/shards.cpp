#include "plan/shards.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "plan/block_kind.h"

namespace amdahl {
namespace {

constexpr int64_t kGroup = 4;  // units that share one dropout draw

/// A whole shard of each of `count` parameters.
std::vector<TensorShard> whole_shards(size_t count) { return std::vector<TensorShard>(count); }

int64_t vocabulary_tile(int64_t vocabulary, int num_ranks) {
  constexpr int64_t kTile = 128, kSmallTile = 8;  // rows of which GEMMs are aligned; of a small vocabulary
  return vocabulary >= kTile * num_ranks ? kTile : kSmallTile;
}

int64_t vocabulary_groups(int64_t vocabulary, int num_ranks) {
  const int64_t tile = vocabulary_tile(vocabulary, num_ranks);
  return (vocabulary + tile - 1) / tile;
}

bool is_recurrent(const LayerSpec& layer) { return layer.kind == LayerKind::lstm || layer.kind == LayerKind::gru; }

/// The largest number of ranks up to `num_ranks` among which `count` things are divided evenly.
int64_t even_ranks(int64_t count, int num_ranks) {
  int64_t ranks = num_ranks;
  while (count % ranks != 0) --ranks;
  return ranks;
}

Feasibility divided_feasible(const LayerSpec& layer, size_t index, int num_ranks) {
  if (is_recurrent(layer)) {
    const int64_t most = even_ranks(layer.units, num_ranks);
    if (most == num_ranks) return {};
    return {false, fmt::format("the {} units of layer {} cannot be divided among {} tensor-parallel ranks; {} can",
                               layer.units, index, num_ranks, most)};
  }
  if (layer.kind != LayerKind::transformer_block) {
    const int64_t most = vocabulary_groups(layer.vocabulary, num_ranks);
    if (most >= num_ranks) return {};
    return {false, fmt::format("layer {} has a vocabulary of {}: at most {} tensor-parallel ranks", index,
                               layer.vocabulary, most)};
  }
  const BlockWidths widths = block_widths(layer);
  const int64_t most = even_ranks(std::gcd(widths.kv_heads, widths.hidden), num_ranks);  // kv_heads divide the heads
  if (most == num_ranks) return {};
  const auto divides = [&](int64_t count) { return count % num_ranks == 0; };
  const auto [count, what] = !divides(widths.heads)      ? std::pair{widths.heads, "heads"}
                             : !divides(widths.kv_heads) ? std::pair{widths.kv_heads, "heads of keys and values"}
                                                         : std::pair{widths.hidden, "hidden units"};
  return {false, fmt::format("the {} {} of layer {} cannot be divided among {} tensor-parallel ranks; {} can", count,
                             what, index, num_ranks, most)};
}

/// The rows of a rank in parts of such widths, one behind another, of which each is divided.
std::vector<RowRange> divided_rows(std::initializer_list<int64_t> widths, const TensorPlace& place) {
  std::vector<RowRange> rows;
  int64_t begin = 0;
  for (const int64_t width : widths) {
    const int64_t held = width / place.size;
    rows.push_back({begin + place.rank * held, begin + (place.rank + 1) * held});
    begin += width;
  }
  return rows;
}

/// Parameters of a transformer block: of q, k and v the rows of the rank's heads, of the first dense layer (of gate and
/// values, where it is gated) the rows of its hidden units, and of the layers behind them the columns. Biases behind
/// the sums of the ranks and normalisations are whole.
std::vector<TensorShard> block_shards(const LayerSpec& layer, const std::vector<ParameterSpec>& parameters,
                                      const TensorPlace& place) {
  const BlockWidths widths = block_widths(layer);
  const int64_t queries = widths.attended(), keys = widths.kv_heads * widths.head_dim;
  std::vector<TensorShard> shards;
  for (const ParameterSpec& parameter : parameters) {
    const auto is_of = [&](std::string_view name) { return parameter.name.starts_with(name); };
    TensorShard shard;
    if (is_of("attention.qkv.")) shard = {0, divided_rows({queries, keys, keys}, place)};
    if (is_of("mlp.up."))
      shard = {0, widths.is_gated ? divided_rows({widths.hidden, widths.hidden}, place)
                                  : divided_rows({widths.hidden}, place)};
    if (is_of("attention.out.weight")) shard = {1, divided_rows({queries}, place)};
    if (is_of("mlp.down.weight")) shard = {1, divided_rows({widths.hidden}, place)};
    shards.push_back(std::move(shard));
  }
  return shards;
}

/// Parameters of recurrent cells: of each gate the rows of the rank's units.
std::vector<TensorShard> recurrent_shards(const LayerSpec& layer, const TensorPlace& place, size_t count) {
  const int64_t held = layer.units / place.size, gates = layer.kind == LayerKind::lstm ? 4 : 3;
  TensorShard rows{0, {}};
  for (int64_t gate = 0; gate < gates; ++gate) {
    const int64_t begin = gate * layer.units + place.rank * held;
    rows.parts.push_back({begin, begin + held});
  }
  return std::vector<TensorShard>(count, rows);
}

}  // namespace

std::vector<TensorRole> tensor_roles(const ModelSpec& model, const std::vector<LayerRange>& stages) {
  std::vector<TensorRole> roles(model.layers.size(), TensorRole::whole);
  const std::vector<LayerRange> ranges = stages.empty() ? std::vector<LayerRange>{{}} : stages;
  for (const LayerRange& range : ranges) {
    const size_t last = std::min(range.last, model.layers.size());
    const auto is_dense = [&](size_t i) { return i < last && model.layers[i].kind == LayerKind::dense; };
    for (size_t i = range.first; i < last; ++i) {
      const LayerKind kind = model.layers[i].kind;
      if (kind == LayerKind::transformer_block || kind == LayerKind::embedding || kind == LayerKind::token_head ||
          is_recurrent(model.layers[i]))
        roles[i] = TensorRole::divided;
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
  const std::vector<TensorRole> roles = tensor_roles(model, stages);
  for (size_t i = 0; i < roles.size(); ++i) {
    if (roles[i] == TensorRole::divided)
      if (Feasibility divides = divided_feasible(model.layers[i], i, num_ranks); !divides.ok) return divides;
    const int64_t groups = (model.layers[i].units + kGroup - 1) / kGroup;
    if (roles[i] == TensorRole::column && groups < num_ranks)
      return {false,
              fmt::format("layer {} has {} units: at most {} tensor-parallel ranks", i, model.layers[i].units, groups)};
  }
  return {};
}

std::vector<bool> divided_tokens(const ModelSpec& model) {
  std::vector<bool> divided(model.layers.size(), false);
  const auto kind = [&](size_t i) { return model.layers[i].kind; };
  const auto keeps = [&](size_t i) {
    return kind(i) == LayerKind::transformer_block || kind(i) == LayerKind::layer_norm;
  };
  for (size_t i = 0; i + 1 < model.layers.size(); ++i) {
    const bool begins = (kind(i) == LayerKind::embedding || kind(i) == LayerKind::projection) && keeps(i + 1);
    divided[i] = begins || (i > 0 && keeps(i) && divided[i - 1]);
  }
  return divided;
}

Feasibility sequence_feasible(const ModelSpec& model) {
  const std::vector<bool> divided = divided_tokens(model);
  bool has_blocks = false;
  for (size_t i = 1; i < model.layers.size(); ++i) {
    if (!divided[i - 1]) continue;
    const LayerKind kind = model.layers[i].kind;
    has_blocks = has_blocks || kind == LayerKind::transformer_block;
    if (!divided[i] && kind != LayerKind::pool && kind != LayerKind::token_head)
      return {false,
              fmt::format("sp: layer {} ({}) does not gather the tokens that ranks divide", i, row_of(kind).name)};
  }
  if (has_blocks) return {};
  return {false, fmt::format("sp divides the tokens between an embedding or projection and the blocks behind it, and "
                             "'{}' has none",
                             model.name)};
}

RowRange column_units(int64_t units, const TensorPlace& place) {
  const RowRange groups = even_share((units + kGroup - 1) / kGroup, place.size, place.rank);
  return {std::min(units, groups.begin * kGroup), std::min(units, groups.end * kGroup)};
}

RowRange vocabulary_rows(int64_t vocabulary, const TensorPlace& place) {
  if (place.size == 1) return {0, padded_vocabulary(vocabulary)};
  const int64_t tile = vocabulary_tile(vocabulary, place.size);
  const RowRange groups = even_share(vocabulary_groups(vocabulary, place.size), place.size, place.rank);
  return {groups.begin * tile, groups.end * tile};
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
  } else if (spec.kind == LayerKind::transformer_block) {
    return block_shards(spec, parameters_of(spec, model.layer_input_shape(layer)), place);
  } else if (is_recurrent(spec)) {
    return recurrent_shards(spec, place, count);
  } else if (count > 0) {  // a tied head has none
    shards[0] = {0, {vocabulary_rows(spec.vocabulary, place)}};
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
    int64_t& extent = parameters[i].shape[static_cast<size_t>(shards[i].axis)];
    if (parameters[i].padded_rows > 0) {  // of a vocabulary
      parameters[i].padded_rows = held;
      held = std::min(extent, shards[i].parts.front().end) - shards[i].parts.front().begin;
    }
    extent = held;
  }
  return parameters;
}

}  // namespace amdahl
