#include "plan/stages.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "plan/layer_kinds.h"

namespace amdahl {
namespace {

/// Indices of the transformer blocks.
std::vector<size_t> blocks_of(const ModelSpec& model) {
  std::vector<size_t> blocks;
  for (size_t i = 0; i < model.layers.size(); ++i)
    if (model.layers[i].kind == LayerKind::transformer_block) blocks.push_back(i);
  return blocks;
}

}  // namespace

std::vector<double> layer_flops(const ModelSpec& model) {
  std::vector<double> flops;
  for (size_t i = 0; i < model.layers.size(); ++i) {
    const double gemm = row_of(model.layers[i].kind).forward_flops(model.layers[i], model.layer_input_shape(i));
    flops.push_back(i == 0 ? 2 * gemm : 3 * gemm);
  }
  return flops;
}

std::vector<LayerRange> balance_stages(const std::vector<double>& work, int num_stages) {
  const size_t layers = work.size();
  if (num_stages < 1 || layers < static_cast<size_t>(num_stages))
    throw Error(Cause::usage, fmt::format("{} layers cannot be cut into {} pipeline stages", layers, num_stages),
                fmt::format("1 to {} stages", layers));
  const auto stages = static_cast<size_t>(num_stages);
  std::vector<double> sum(layers + 1, 0.0);
  for (size_t i = 0; i < layers; ++i) sum[i + 1] = sum[i] + work[i];
  // most[s][n]: minimal work of the most loaded of s stages over the first n layers; cut[s][n]: first layer of the last
  // of these stages.
  std::vector<std::vector<double>> most(stages + 1,
                                        std::vector<double>(layers + 1, std::numeric_limits<double>::infinity()));
  std::vector<std::vector<size_t>> cut(stages + 1, std::vector<size_t>(layers + 1, 0));
  most[0][0] = 0;
  for (size_t s = 1; s <= stages; ++s)
    for (size_t n = s; n <= layers; ++n)
      for (size_t begin = s - 1; begin < n; ++begin) {
        const double here = std::max(most[s - 1][begin], sum[n] - sum[begin]);
        if (here < most[s][n]) most[s][n] = here, cut[s][n] = begin;
      }
  std::vector<LayerRange> ranges(stages);
  size_t end = layers;
  for (size_t s = stages; s > 0; --s) {
    ranges[s - 1] = {cut[s][end], end};
    end = cut[s][end];
  }
  return ranges;
}

Feasibility stages_feasible(const ModelSpec& model, int num_stages, StageSplit split) {
  const size_t blocks = blocks_of(model).size(), layers = model.layers.size();
  if (num_stages < 1) return {false, fmt::format("{} pipeline stages", num_stages)};
  const auto stages = static_cast<size_t>(num_stages);
  if (layers < stages)
    return {false,
            fmt::format("the {} layers of '{}' cannot be cut into {} pipeline stages", layers, model.name, num_stages)};
  if (split == StageSplit::blocks && blocks > 0 && blocks % stages != 0)
    return {false, fmt::format("the {} blocks of '{}' cannot be divided evenly among {} pipeline stages", blocks,
                               model.name, num_stages)};
  return {};
}

std::vector<LayerRange> stage_layers(const ModelSpec& model, int num_stages, StageSplit split) {
  const Feasibility feasible = stages_feasible(model, num_stages, split);
  if (!feasible.ok) throw Error(Cause::usage, feasible.reason, "fewer stages, or `split=flops`");
  const std::vector<size_t> blocks = blocks_of(model);
  if (split == StageSplit::flops || blocks.empty()) return balance_stages(layer_flops(model), num_stages);
  const auto stages = static_cast<size_t>(num_stages);
  std::vector<LayerRange> ranges(stages);
  for (size_t s = 0; s < stages; ++s) {
    ranges[s].first = s == 0 ? 0 : ranges[s - 1].last;
    ranges[s].last = s + 1 == stages ? model.layers.size() : blocks[(s + 1) * blocks.size() / stages];
  }
  return ranges;
}

}  // namespace amdahl
