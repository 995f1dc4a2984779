// Frequencies and tables of rotary positions against the formulas of transformers (modeling_rope_utils), written here
// by wavelengths and ramps as they are there.
#include "plan/rotary.h"

#include <gtest/gtest.h>

#include <cmath>

namespace amdahl {
namespace {

constexpr double kTurn = 2 * 3.14159265358979323846;

LayerSpec block(int64_t head_dim, double theta) {
  LayerSpec layer;
  layer.kind = LayerKind::transformer_block;
  layer.units = 4 * head_dim, layer.heads = 4, layer.head_dim = head_dim, layer.rope_theta = theta;
  return layer;
}

LayerSpec scaled(LayerSpec layer, RopeScaling scaling, double factor, int64_t steps, double low, double high) {
  layer.rope_scaling = scaling, layer.rope_factor = factor, layer.rope_original_steps = steps;
  layer.rope_low = low, layer.rope_high = high;
  return layer;
}

TEST(Rotary, PlainFrequencies) {
  const std::vector<double> frequencies = rotary_frequencies(block(8, 10000));
  ASSERT_EQ(frequencies.size(), 4U);
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(frequencies[i], std::pow(10.0, -static_cast<double>(i)), 1e-15);
}

TEST(Rotary, LinearScalingDividesAll) {
  LayerSpec layer = block(6, 500);
  const std::vector<double> plain = rotary_frequencies(layer);
  layer.rope_scaling = RopeScaling::linear, layer.rope_factor = 2.5;
  for (size_t i = 0; i < 3; ++i) EXPECT_DOUBLE_EQ(rotary_frequencies(layer)[i], plain[i] / 2.5);
  EXPECT_EQ(rotary_factor(layer), 1);
}

// Llama 3.2's: factor 32 over 8,192 steps, between 1 and 4 turns.
TEST(Rotary, Llama3KeepsShortWavesAndDividesLongOnes) {
  const LayerSpec plain = block(64, 500000);
  const std::vector<double> before = rotary_frequencies(plain);
  const std::vector<double> after = rotary_frequencies(scaled(plain, RopeScaling::llama3, 32, 8192, 1, 4));
  int kept = 0, divided = 0, between = 0;
  for (size_t i = 0; i < before.size(); ++i) {
    const double wave = kTurn / before[i];
    double wanted = before[i];
    if (wave > 8192.0 / 1) {
      wanted = before[i] / 32, ++divided;
    } else if (wave < 8192.0 / 4) {
      ++kept;
    } else {
      const double smooth = (8192.0 / wave - 1) / (4.0 - 1);
      wanted = (1 - smooth) * before[i] / 32 + smooth * before[i], ++between;
    }
    EXPECT_NEAR(after[i], wanted, 1e-12 * wanted) << i;
  }
  EXPECT_GT(kept, 0);
  EXPECT_GT(divided, 0);
  EXPECT_GT(between, 0);
}

// Qwen's for long contexts: factor 4 over 32,768 steps, beta_slow 1 and beta_fast 32.
TEST(Rotary, YarnRampsOverPairs) {
  const double theta = 1e6, dim = 128, steps = 32768, factor = 4;
  const LayerSpec layer = scaled(block(128, theta), RopeScaling::yarn, factor, 32768, 1, 32);
  const std::vector<double> frequencies = rotary_frequencies(layer);
  const auto correction = [&](double turns) { return dim * std::log(steps / (turns * kTurn)) / (2 * std::log(theta)); };
  const double low = std::floor(correction(32)), high = std::ceil(correction(1));
  EXPECT_GT(low, 0);
  EXPECT_LT(high, dim / 2);
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const double ramp = std::min(1.0, std::max(0.0, (static_cast<double>(i) - low) / (high - low)));
    const double positions = std::pow(theta, 2 * static_cast<double>(i) / dim);
    EXPECT_NEAR(frequencies[i] * positions, ramp / factor + (1 - ramp), 1e-12) << i;
  }
  EXPECT_NEAR(rotary_factor(layer), 1.1386294361119891, 1e-15);  // 0.1 ln 4 + 1
  LayerSpec given = layer;
  given.rope_attention = 1.5;
  EXPECT_EQ(rotary_factor(given), 1.5);
}

TEST(Rotary, TableHasCosinesThenSinesOfEachStep) {
  LayerSpec layer = scaled(block(4, 100), RopeScaling::yarn, 2, 16, 0.5, 4);
  const std::vector<double> frequencies = rotary_frequencies(layer);
  const auto table = rotary_table(layer, 7);
  ASSERT_EQ(table->size(), 7U * 4);
  for (size_t t = 0; t < 7; ++t)
    for (size_t i = 0; i < 2; ++i) {
      const double angle = static_cast<double>(t) * frequencies[i], factor = rotary_factor(layer);
      EXPECT_NEAR((*table)[4 * t + i], factor * std::cos(angle), 1e-7);
      EXPECT_NEAR((*table)[4 * t + 2 + i], factor * std::sin(angle), 1e-7);
    }
  EXPECT_EQ(rotary_table(layer, 7), table);  // the same memory for the next block
  layer.hidden = 99;                         // is none of its inputs
  EXPECT_EQ(rotary_table(layer, 7), table);
  EXPECT_NE(rotary_table(layer, 8), table);
  EXPECT_EQ(*rotary_table(layer, 7), *table);
}

}  // namespace
}  // namespace amdahl
