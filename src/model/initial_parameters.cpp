#include <algorithm>
#include <cmath>
#include <numbers>
#include <system_error>
#include <thread>
#include <vector>

#include "base/philox.h"
#include "model/model.h"

namespace amdahl {
namespace {

constexpr uint32_t kInitStream = 0x1417;  // separates initialisation draws from dropout draws of the same seed

/// A large tensor is drawn by all processors: 124 million normal values take seconds on one.
constexpr int64_t kDrawsPerThread = int64_t{1} << 20;

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

/// All `count` draws of a tensor. `set` may be called by several threads, each with indices of its own.
template <class Set>
void draw(const ParameterSpec& spec, int64_t count, double he_sd, uint64_t seed, size_t layer, size_t tensor,
          const Set& set) {
  const int64_t most = std::clamp<int64_t>(std::thread::hardware_concurrency(), 1, 32);
  const int64_t threads = std::clamp<int64_t>(count / kDrawsPerThread, 1, most);
  const int64_t share = (count / threads + 3) / 4 * 4 + 4;
  std::vector<std::jthread> others;
  for (int64_t begin = share; begin < count; begin += share) {
    const auto work = [=, &spec, &set] {
      draw_range(spec, begin, std::min(count, begin + share), he_sd, seed, layer, tensor, set);
    };
    try {
      others.emplace_back(work);
    } catch (const std::system_error&) {  // no more threads: this one does it
      work();
    }
  }
  draw_range(spec, 0, std::min(count, share), he_sd, seed, layer, tensor, set);
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
      // Draws are indexed in the whole tensor, not the shard.
      const int64_t count = tensor.whole.num_parameters();
      const double scale = residual_scale(spec, spec.layers[source], tensor.spec.name);
      if (tensor.shard.axis < 0) {
        draw(tensor.spec, count, he_sd, seed, source, t, [&](int64_t at, double value) {
          if (at < count) values[at] = static_cast<float>(scale * value);
        });
        continue;
      }
      std::vector<float> whole(static_cast<size_t>(count));
      draw(tensor.spec, count, he_sd, seed, source, t, [&](int64_t at, double value) {
        if (at < count) whole[static_cast<size_t>(at)] = static_cast<float>(scale * value);
      });
      for_each_run(tensor,
                   [&](int64_t from, int64_t to, int64_t n) { std::copy_n(whole.data() + from, n, values + to); });
    }
  }
  return params;
}

}  // namespace amdahl
