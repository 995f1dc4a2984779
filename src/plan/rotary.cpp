#include "plan/rotary.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <numbers>
#include <tuple>

#include "plan/block_kind.h"

namespace amdahl {
namespace {

/// Frequencies that turn less than rope_low times in the original steps are divided by the factor, those that turn more
/// than rope_high times are kept, and between them the share that is kept grows with the number of turns.
double llama3_frequency(const LayerSpec& layer, double frequency) {
  const double turns = static_cast<double>(layer.rope_original_steps) * frequency / (2 * std::numbers::pi);
  const double kept = std::clamp((turns - layer.rope_low) / (layer.rope_high - layer.rope_low), 0.0, 1.0);
  return kept * frequency + (1 - kept) * frequency / layer.rope_factor;
}

/// The pair, as a real number, that turns so many times in the original steps.
double pair_of_turns(const LayerSpec& layer, double pairs, double turns) {
  return pairs * std::log(static_cast<double>(layer.rope_original_steps) / (turns * 2 * std::numbers::pi)) /
         std::log(layer.rope_theta);
}

/// As llama3, but linear in the index of the pair, between the pairs that turn rope_high and rope_low times.
void scale_as_yarn(const LayerSpec& layer, std::vector<double>& frequencies) {
  const auto pairs = static_cast<double>(frequencies.size());
  const double first = std::max(0.0, std::floor(pair_of_turns(layer, pairs, layer.rope_high)));
  double last = std::min(2 * pairs - 1, std::ceil(pair_of_turns(layer, pairs, layer.rope_low)));
  if (last == first) last += 0.001;  // as transformers does
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const double divided = std::clamp((static_cast<double>(i) - first) / (last - first), 0.0, 1.0);
    frequencies[i] *= 1 - divided + divided / layer.rope_factor;
  }
}

std::vector<float> make_table(const LayerSpec& layer, int64_t steps) {
  const std::vector<double> frequencies = rotary_frequencies(layer);
  const double factor = rotary_factor(layer);
  const size_t pairs = frequencies.size();
  std::vector<float> table(static_cast<size_t>(steps) * 2 * pairs);
  for (size_t t = 0; t < static_cast<size_t>(steps); ++t)
    for (size_t i = 0; i < pairs; ++i) {
      const double angle = static_cast<double>(t) * frequencies[i];
      table[2 * t * pairs + i] = static_cast<float>(factor * std::cos(angle));
      table[(2 * t + 1) * pairs + i] = static_cast<float>(factor * std::sin(angle));
    }
  return table;
}

/// Whether two blocks have the same table for equal steps.
bool turns_alike(const LayerSpec& a, const LayerSpec& b) {
  const auto fields = [](const LayerSpec& l) {
    return std::tuple(block_widths(l).head_dim, l.rope_theta, l.rope_scaling, l.rope_factor, l.rope_original_steps,
                      l.rope_low, l.rope_high, l.rope_attention);
  };
  return fields(a) == fields(b);
}

}  // namespace

std::vector<double> rotary_frequencies(const LayerSpec& layer) {
  const int64_t width = block_widths(layer).head_dim;
  std::vector<double> frequencies(static_cast<size_t>(width / 2));
  for (size_t i = 0; i < frequencies.size(); ++i)
    frequencies[i] = std::pow(layer.rope_theta, -2.0 * static_cast<double>(i) / static_cast<double>(width));
  if (layer.rope_scaling == RopeScaling::linear)
    for (double& frequency : frequencies) frequency /= layer.rope_factor;
  if (layer.rope_scaling == RopeScaling::llama3)
    for (double& frequency : frequencies) frequency = llama3_frequency(layer, frequency);
  if (layer.rope_scaling == RopeScaling::yarn) scale_as_yarn(layer, frequencies);
  return frequencies;
}

double rotary_factor(const LayerSpec& layer) {
  if (layer.rope_scaling != RopeScaling::yarn) return 1;
  return layer.rope_attention > 0 ? layer.rope_attention : 0.1 * std::log(layer.rope_factor) + 1;
}

std::shared_ptr<const std::vector<float>> rotary_table(const LayerSpec& layer, int64_t steps) {
  struct Latest {
    std::mutex mutex;
    LayerSpec layer;
    int64_t steps = 0;
    std::shared_ptr<const std::vector<float>> table;
  };
  static Latest latest;
  const std::lock_guard lock(latest.mutex);
  if (!latest.table || latest.steps != steps || !turns_alike(latest.layer, layer)) {
    latest.table = std::make_shared<const std::vector<float>>(make_table(layer, steps));
    latest.layer = layer, latest.steps = steps;
  }
  return latest.table;
}

}  // namespace amdahl
