#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <vector>

#include "base/philox.h"
#include "base/run_pieces.h"
#include "model/model.h"

namespace amdahl {
namespace {

constexpr uint32_t kInitStream = 0x1417;  // separates initialisation draws from dropout draws of the same seed

/// Draws of one piece of work. The pieces of all tensors are drawn by all processors: 124 million normal values take
/// seconds on one, and most tensors are too small to be divided among many.
constexpr int64_t kDrawsPerPiece = int64_t{1} << 18;

/// Calls `set(index, value)` for the draws [begin, end) of the layer's tensor; the draws depend on seed, layer, tensor
/// and index alone. begin is a multiple of 4; up to 3 draws beyond the end are made.
template <class Set>
void draw_range(const ParameterSpec& spec, int64_t begin, int64_t end, double he_sd, uint64_t seed, size_t layer,
                size_t tensor, const Set& set) {
  const auto stream = static_cast<uint32_t>(kInitStream + (tensor << 16));
  const double sd = spec.initial == Initial::he_normal ? he_sd : spec.scale;
  for (int64_t first = begin; first < end; first += 4) {
    const Philox4 bits = philox(seed, static_cast<uint32_t>(first), static_cast<uint32_t>(first >> 32),
                                static_cast<uint32_t>(layer), stream);
    if (spec.initial == Initial::uniform) {
      for (int64_t i = 0; i < 4; ++i)
        set(first + i, spec.scale * (2.0 * static_cast<double>(philox_uniform(bits.v[i])) - 1.0));
      continue;
    }
    for (int64_t pair = 0; pair < 2; ++pair) {  // Box-Muller: two normals from two uniforms
      const double radius = std::sqrt(-2.0 * std::log(static_cast<double>(philox_uniform(bits.v[2 * pair]))));
      const double angle = 2.0 * std::numbers::pi * static_cast<double>(philox_uniform(bits.v[2 * pair + 1]));
      set(first + 2 * pair, sd * radius * std::cos(angle));
      set(first + 2 * pair + 1, sd * radius * std::sin(angle));
    }
  }
}

/// Residual branches of pre-norm transformers are scaled down by 1 / sqrt(2 x blocks), as GPT-2's.
double residual_scale(const ModelSpec& spec, const LayerSpec& layer, const std::string& name) {
  if (layer.kind != LayerKind::transformer_block || layer.post_norm) return 1;
  if (name != "attention.out.weight" && name != "mlp.down.weight") return 1;
  double blocks = 0;
  for (const LayerSpec& each : spec.layers) blocks += each.kind == LayerKind::transformer_block;
  return 1 / std::sqrt(2 * blocks);
}

}  // namespace

std::vector<float> initial_parameters(const ModelSpec& spec, const ParameterLayout& layout, uint64_t seed) {
  std::vector<float> params(static_cast<size_t>(layout.num_floats), 0.0f);
  std::vector<std::function<void()>> pieces;
  for (size_t i = layout.range.first; i < layout.range.last; ++i) {
    const LayerSlice& slice = layout.layers[i];
    const size_t source = slice.is_table_copy ? 0 : i;
    const double he_sd = std::sqrt(2.0 / static_cast<double>(spec.layer_input_width(source)));
    for (size_t t = 0; t < slice.tensors.size(); ++t) {
      const TensorSlice& tensor = slice.tensors[t];
      float* values = params.data() + tensor.begin;
      if (tensor.spec.initial == Initial::zero) continue;
      if (tensor.spec.initial == Initial::one) {
        std::fill_n(values, tensor.spec.num_parameters(), 1.0f);
        continue;
      }
      const int64_t count = tensor.whole.num_parameters();
      const double scale = residual_scale(spec, spec.layers[source], tensor.spec.name);
      for (int64_t begin = 0; begin < count; begin += kDrawsPerPiece)
        pieces.emplace_back([=, &tensor] {
          const int64_t end = std::min(count, begin + kDrawsPerPiece);
          std::vector<float> drawn(static_cast<size_t>(end - begin));  // draws are indexed in the whole, not the shard
          draw_range(tensor.spec, begin, end, he_sd, seed, source, t, [&](int64_t at, double value) {
            if (at < end) drawn[static_cast<size_t>(at - begin)] = static_cast<float>(scale * value);
          });
          for_each_run(tensor, [&](int64_t from, int64_t to, int64_t n) {
            const int64_t first = std::max(from, begin), last = std::min(from + n, end);
            if (first < last) std::copy_n(drawn.data() + (first - begin), last - first, values + to + (first - from));
          });
        });
    }
  }
  run_pieces(pieces.size(), [&](size_t i) { pieces[i](); });
  return params;
}

}  // namespace amdahl
