// The gradients of the float64 references of sequence models against central differences of their forward functions.
#include "reference_sequence.h"

#include <gtest/gtest.h>

#include <random>

namespace amdahl::test::reference {
namespace {

class ReferenceSequence : public ::testing::Test {
 protected:
  Values random(int64_t count) {
    std::normal_distribution<double> normal;
    Values values = zeros(count);
    for (double& value : values) value = normal(generator_);
    return values;
  }
  /// Truncation and rounding of central differences with steps of 1e-5 are below 1e-8 for functions of order 1 to 10.
  static void expect_gradient(const Values& ours, const std::function<double(const Values&)>& f, const Values& x) {
    const Values wanted = central_differences(f, x);
    ASSERT_EQ(ours.size(), wanted.size());
    for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(ours[i], wanted[i], 1e-7) << i;
  }

  std::mt19937_64 generator_{31};
};

TEST_F(ReferenceSequence, MatMulGradients) {
  constexpr int64_t kM = 3, kN = 4, kK = 5;
  for (const bool transpose_a : {false, true})
    for (const bool transpose_b : {false, true}) {
      const Values a = random(kM * kK), b = random(kK * kN), dc = random(kM * kN);
      const auto f = [&](const Values& left, const Values& right) {
        return dot(matmul(left, right, kM, kN, kK, transpose_a, transpose_b), dc);
      };
      const MatMulGradients g = matmul_gradients(a, b, dc, kM, kN, kK, transpose_a, transpose_b);
      expect_gradient(
          g.da, [&](const Values& v) { return f(v, b); }, a);
      expect_gradient(
          g.db, [&](const Values& v) { return f(a, v); }, b);
    }
}

TEST_F(ReferenceSequence, BiasAndGeluGradients) {
  const Values x = random(12), bias = random(4), dy = random(12);
  const Values dx = gelu_gradient(dy, add_bias(x, bias));
  expect_gradient(
      dx, [&](const Values& v) { return dot(gelu(add_bias(v, bias)), dy); }, x);
  expect_gradient(
      column_sums(dx, 4), [&](const Values& v) { return dot(gelu(add_bias(x, v)), dy); }, bias);
}

TEST_F(ReferenceSequence, GeluIsTheTanhApproximation) {
  for (double x = -6; x <= 6; x += 0.25)
    EXPECT_NEAR(gelu(x), 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))), 1e-14);
}

TEST_F(ReferenceSequence, LayerNormGradients) {
  constexpr int64_t kWidth = 7;
  const Values x = random(3 * kWidth), gamma = random(kWidth), beta = random(kWidth), dy = random(3 * kWidth);
  const LayerNormGradients g = layer_norm_gradients(dy, x, gamma);
  expect_gradient(
      g.dx, [&](const Values& v) { return dot(layer_norm(v, gamma, beta).y, dy); }, x);
  expect_gradient(
      g.dgamma, [&](const Values& v) { return dot(layer_norm(x, v, beta).y, dy); }, gamma);
  expect_gradient(
      g.dbeta, [&](const Values& v) { return dot(layer_norm(x, gamma, v).y, dy); }, beta);
}

TEST_F(ReferenceSequence, AttentionGradient) {
  for (const bool causal : {false, true}) {
    const AttentionSizes s{2, 5, 2, 3, causal};
    const Values qkv = random(2 * 5 * 3 * 2 * 3), d_out = random(2 * 5 * 2 * 3);
    expect_gradient(
        attention_gradient(s, qkv, d_out), [&](const Values& v) { return dot(attention(s, v).out, d_out); }, qkv);
  }
}

TEST_F(ReferenceSequence, EmbeddingGradients) {
  const Values tokens{0, 2, 1, 2, 2, 0}, table = random(3 * 4), positions = random(3 * 4), common = random(4);
  const Values d_out = random(6 * 4);
  const auto f = [&](const Values& t, const Values& p, const Values& c) {
    return dot(embedding(tokens, t, p, c, 3, 4), d_out);
  };
  const EmbeddingGradients g = embedding_gradients(tokens, d_out, 3, 3, 4);
  expect_gradient(
      g.table, [&](const Values& v) { return f(v, positions, common); }, table);
  expect_gradient(
      g.positions, [&](const Values& v) { return f(table, v, common); }, positions);
  expect_gradient(
      g.common, [&](const Values& v) { return f(table, positions, v); }, common);
}

TEST_F(ReferenceSequence, PoolGradients) {
  for (const Pool pool : {Pool::mean, Pool::first, Pool::last}) {
    const Values x = random(2 * 3 * 4), d_y = random(2 * 4);
    expect_gradient(
        pool_steps_gradient(pool, d_y, 2, 3, 4),
        [&](const Values& v) { return dot(pool_steps(pool, v, 2, 3, 4), d_y); }, x);
  }
}

TEST_F(ReferenceSequence, CrossEntropyGradient) {
  const Values logits = random(3 * 6), labels{4, 0, 2};
  expect_gradient(
      cross_entropy(logits, labels, 5, 6, 0.5).gradient,
      [&](const Values& v) { return cross_entropy(v, labels, 5, 6, 0.5).loss; }, logits);
}

}  // namespace
}  // namespace amdahl::test::reference
