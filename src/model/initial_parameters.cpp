#include <cmath>
#include <numbers>

#include "base/philox.h"
#include "model/model.h"

namespace amdahl {
namespace {

constexpr uint32_t kInitStream = 0x1417;  // separates initialisation draws from dropout draws of the same seed

}  // namespace

std::vector<float> initial_parameters(const ModelSpec& spec, const ParameterLayout& layout, uint64_t seed) {
  std::vector<float> params(static_cast<size_t>(layout.num_floats), 0.0f);
  for (size_t i = layout.range.first; i < layout.range.last; ++i) {
    const int64_t count = spec.layers[i].units * spec.layer_input_width(i);
    const double sd = std::sqrt(2.0 / static_cast<double>(spec.layer_input_width(i)));
    const LayerSlice& slice = layout.layers[i];
    const int64_t width = spec.layer_input_width(i);
    const auto set = [&](int64_t at, double value) {  // draws are indexed in the whole weight, not the shard
      const WeightShard& shard = slice.shard;
      const int64_t row = at / width, column = at % width;
      if (at >= count || row < shard.row_begin || row >= shard.row_end || column < shard.column_begin ||
          column >= shard.column_end)
        return;
      params[static_cast<size_t>(slice.weight + (row - shard.row_begin) * shard.columns() + column -
                                 shard.column_begin)] = static_cast<float>(value);
    };
    for (int64_t first = 0; first < count; first += 4) {
      const Philox4 bits = philox(seed, static_cast<uint32_t>(first), static_cast<uint32_t>(first >> 32),
                                  static_cast<uint32_t>(i), kInitStream);
      for (int64_t pair = 0; pair < 2; ++pair) {  // Box-Muller: two normals from two uniforms
        const double radius = std::sqrt(-2.0 * std::log(static_cast<double>(philox_uniform(bits.v[2 * pair]))));
        const double angle = 2.0 * std::numbers::pi * static_cast<double>(philox_uniform(bits.v[2 * pair + 1]));
        const int64_t at = first + 2 * pair;
        set(at, sd * radius * std::cos(angle));
        set(at + 1, sd * radius * std::sin(angle));
      }
    }
  }
  return params;
}

}  // namespace amdahl
