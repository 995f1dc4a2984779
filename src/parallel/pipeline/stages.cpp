#include "parallel/pipeline/stages.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/layer_kinds.h"

namespace amdahl {

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

}  // namespace amdahl
