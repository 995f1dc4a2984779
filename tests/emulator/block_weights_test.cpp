// Grouped weight gradients on the emulator. Values are small integers: products and sums are exact in every type.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "ops/cuda_block_weights.cuh"
#include "ops/cuda_typed.cuh"

namespace amdahl {
namespace {

struct ProductShape {
  int out, in;
  bool has_bias;
};
struct WeightCase {
  std::vector<ProductShape> products;
  int tokens, cluster;
  int parts = 0, result_width = 0;
};

std::vector<float> small_integers(size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(static_cast<int>(random() % 7) - 3);
  return values;
}
template <class Element>
std::vector<Element> typed(const std::vector<float>& values) {
  std::vector<Element> result;
  for (float value : values) result.push_back(to_element<Element>(value));
  return result;
}

/// What a product computes, added to what was there.
struct Expected {
  std::vector<float> dy, x, dw, dbias;
};
Expected expect_product(const ProductShape& shape, int tokens, uint64_t seed, float before) {
  const auto out = static_cast<size_t>(shape.out), in = static_cast<size_t>(shape.in);
  Expected e{small_integers(static_cast<size_t>(tokens) * out, seed),
             small_integers(static_cast<size_t>(tokens) * in, seed + 1), std::vector<float>(out * in, before),
             std::vector<float>(out, before)};
  for (size_t token = 0; token < static_cast<size_t>(tokens); ++token)
    for (size_t o = 0; o < out; ++o) {
      const float dy = e.dy[token * out + o];
      e.dbias[o] += dy;
      for (size_t i = 0; i < in; ++i) e.dw[o * in + i] += dy * e.x[token * in + i];
    }
  return e;
}

template <class Element>
void check(const WeightCase& c, bool accumulate, uint64_t seed) {
  const float before = accumulate ? 5.0f : 0.0f, unset = accumulate ? 5.0f : NAN;
  WeightGradients a{};
  std::vector<Expected> expected;
  std::vector<std::vector<Element>> inputs;
  std::vector<std::vector<float>> results;
  for (const ProductShape& shape : c.products) {
    expected.push_back(expect_product(shape, c.tokens, 10 * expected.size(), before));
    inputs.push_back(typed<Element>(expected.back().dy));
    inputs.push_back(typed<Element>(expected.back().x));
    results.emplace_back(expected.back().dw.size(), unset);
    results.emplace_back(expected.back().dbias.size(), unset);
    a.products[a.num_products++] = {inputs[inputs.size() - 2].data(),
                                    inputs.back().data(),
                                    results[results.size() - 2].data(),
                                    shape.has_bias ? results.back().data() : nullptr,
                                    shape.out,
                                    shape.in};
  }
  const size_t sum_columns = static_cast<size_t>(kColumnResults) * static_cast<size_t>(c.result_width);
  const std::vector<float> partials = small_integers(static_cast<size_t>(c.parts) * sum_columns, 99);
  std::vector<float> sums(sum_columns, unset);
  for (int r = 0; r < kColumnResults; ++r) a.results[r] = sums.data() + r * c.result_width;
  a.tokens = c.tokens, a.partials = partials.data(), a.parts = c.parts, a.result_width = c.result_width;
  a.accumulate = accumulate;
  const int finish = (static_cast<int>(sum_columns) + 31) / 32;
  emulator::run({.blocks = weight_tiles(a) * c.cluster + (finish + c.cluster - 1) / c.cluster * c.cluster,
                 .threads = WeightTile<Element>::kThreads,
                 .cluster = c.cluster,
                 .shared_bytes = WeightTile<Element>::kSharedBytes,
                 .seed = seed},
                [&](std::byte* shared) { block_weights_body<Element>(a, shared); });
  for (size_t i = 0; i < c.products.size(); ++i) {
    EXPECT_EQ(results[2 * i], expected[i].dw) << "product " << i;
    if (c.products[i].has_bias) {
      EXPECT_EQ(results[2 * i + 1], expected[i].dbias) << "product " << i;
    }
  }
  for (size_t column = 0; column < sum_columns; ++column) {
    float sum = before;
    for (size_t part = 0; part < static_cast<size_t>(c.parts); ++part) sum += partials[part * sum_columns + column];
    EXPECT_EQ(sums[column], sum) << "column " << column;
  }
}

/// The four products of a block of width 192, with few tokens.
const WeightCase kPreset{{{192, 768, true}, {768, 192, true}, {192, 192, true}, {576, 192, true}}, 96, 3, 2, 192};
/// Tiles past the ends, tokens that fill no stage, blocks without any tokens.
const WeightCase kOdd{{{104, 200, true}, {64, 256, false}}, 37, 4, 5, 72};

TEST(EmulatedBlockWeights, PresetBf16) { check<__nv_bfloat16>(kPreset, false, 1); }
TEST(EmulatedBlockWeights, OddBf16) { check<__nv_bfloat16>(kOdd, false, 3); }
TEST(EmulatedBlockWeights, OddF16) { check<__half>(kOdd, false, 4); }
TEST(EmulatedBlockWeights, OddTf32) {
  check<float>(kOdd, false, 5);
  check<float>(kOdd, true, 6);
}

/// Orders of threads with more tokens than the stages hold at once: enough that a run without any one of the kernel's
/// barriers and waits fails.
TEST(EmulatedBlockWeights, OrdersOfThreads) {
  for (uint64_t seed = 1; seed < 6; ++seed) {
    check<__nv_bfloat16>(kOdd, true, seed);
    check<__nv_bfloat16>({{{96, 192, true}}, 300, 2}, true, seed);
  }
}
TEST(EmulatedBlockWeights, ManyTokens) {
  check<__nv_bfloat16>({{{96, 192, true}}, 300, 1}, false, 7);
  check<float>({{{96, 192, true}}, 170, 2}, false, 9);
}

/// Values that tf32 does not represent: the products are of rounded values, the column sums of all bits.
TEST(EmulatedBlockWeights, Tf32KeepsBiasSumsExact) {
  constexpr int kTokens = 40, kOut = 96, kIn = 192;
  std::mt19937_64 random(3);
  std::normal_distribution<float> normal;
  std::vector<float> dy(kTokens * kOut), x(kTokens * kIn), dw(kOut * kIn), dbias(kOut);
  for (auto* values : {&dy, &x})
    for (float& value : *values) value = normal(random);
  WeightGradients a{};
  a.num_products = 1, a.tokens = kTokens;
  a.products[0] = {dy.data(), x.data(), dw.data(), dbias.data(), kOut, kIn};
  emulator::run({.blocks = 2, .threads = 256, .cluster = 2, .shared_bytes = WeightTile<float>::kSharedBytes, .seed = 1},
                [&](std::byte* shared) { block_weights_body<float>(a, shared); });
  double squares = 0, error = 0;
  for (size_t o = 0; o < kOut; ++o) {
    double sum = 0;
    for (size_t token = 0; token < kTokens; ++token) sum += dy[token * kOut + o];
    EXPECT_NEAR(dbias[o], sum, 1e-5);
    for (size_t i = 0; i < kIn; ++i) {
      double exact = 0;
      for (size_t token = 0; token < kTokens; ++token)
        exact += static_cast<double>(dy[token * kOut + o]) * x[token * kIn + i];
      squares += exact * exact, error += (exact - dw[o * kIn + i]) * (exact - dw[o * kIn + i]);
    }
  }
  EXPECT_LT(std::sqrt(error / squares), 1e-3);
  EXPECT_GT(std::sqrt(error / squares), 1e-5);  // else products are not of tf32
}

}  // namespace
}  // namespace amdahl
