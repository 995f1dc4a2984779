// The gradients of the float64 references of decoders against central differences.
#include "reference_decoder.h"

#include <gtest/gtest.h>

#include <random>

namespace amdahl::test::reference {
namespace {

class ReferenceDecoder : public ::testing::Test {
 protected:
  Values random(int64_t count) {
    std::normal_distribution<double> normal;
    Values values = zeros(count);
    for (double& value : values) value = normal(generator_);
    return values;
  }
  static void expect_gradient(const Values& ours, const std::function<double(const Values&)>& f, const Values& x) {
    const Values wanted = central_differences(f, x);
    ASSERT_EQ(ours.size(), wanted.size());
    for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(ours[i], wanted[i], 1e-7) << i;
  }

  std::mt19937_64 generator_{37};
};

TEST_F(ReferenceDecoder, RmsNormGradients) {
  const Values x = random(4 * 7), gamma = random(7), dy = random(4 * 7);
  const RmsGradients g = rms_norm_gradients(dy, x, gamma, 1e-2);
  expect_gradient(
      g.dx, [&](const Values& v) { return dot(rms_norm(v, gamma, 1e-2), dy); }, x);
  expect_gradient(
      g.dgamma, [&](const Values& v) { return dot(rms_norm(x, v, 1e-2), dy); }, gamma);
}

TEST_F(ReferenceDecoder, GroupedAttentionGradient) {
  for (const int64_t window : {0, 1, 3}) {
    const AttentionSizes s{2, 7, 4, 3, true, 2, window};
    const Values qkv = random(s.packed()), d_out = random(s.batch * s.steps * s.heads * s.head_width);
    expect_gradient(
        attention_gradient(s, qkv, d_out), [&](const Values& v) { return dot(attention(s, v).out, d_out); }, qkv);
  }
}

// With every key and value copied for the heads of its group, attention is that of equal heads.
TEST_F(ReferenceDecoder, GroupedAttentionIsThatOfRepeatedKeys) {
  const AttentionSizes grouped{2, 5, 6, 4, true, 2, 0}, equal{2, 5, 6, 4, true};
  const Values qkv = random(grouped.packed());
  Values repeated = zeros(equal.packed());
  for (int64_t b = 0; b < 2; ++b)
    for (int64_t t = 0; t < 5; ++t)
      for (int64_t part = 0; part < 3; ++part)
        for (int64_t h = 0; h < 6; ++h)
          for (int64_t i = 0; i < 4; ++i)
            repeated[at((((b * 5 + t) * 3 + part) * 6 + h) * 4 + i)] =
                qkv[at(((b * 5 + t) * 10 + (part == 0 ? h : 6 + (part - 1) * 2 + h / 3)) * 4 + i)];
  EXPECT_EQ(attention(grouped, qkv).out, attention(equal, repeated).out);
}

TEST_F(ReferenceDecoder, HeadsGradients) {
  const AttentionSizes s{2, 3, 2, 6, true, 1};
  Heads heads{random(6), random(6), random(3 * 3), 1.3, 1e-3};
  const Values qkv = random(s.packed()), d_y = random(s.packed());
  const HeadsGradients g = heads_gradients(s, qkv, d_y, heads);
  expect_gradient(
      g.d_qkv, [&](const Values& v) { return dot(heads_forward(s, v, heads), d_y); }, qkv);
  const auto with = [&](Values Heads::*weight, const Values& v) {
    Heads changed = heads;
    changed.*weight = v;
    return dot(heads_forward(s, qkv, changed), d_y);
  };
  expect_gradient(
      g.dq_weight, [&](const Values& v) { return with(&Heads::q_weight, v); }, heads.q_weight);
  expect_gradient(
      g.dk_weight, [&](const Values& v) { return with(&Heads::k_weight, v); }, heads.k_weight);
}

// A rotation keeps the scores of equal distances: q at step t with k at step t - 2 is the same for every t.
TEST_F(ReferenceDecoder, RotatedScoresDependOnTheDistance) {
  const AttentionSizes s{1, 9, 1, 4, true};
  Heads heads;
  for (int64_t t = 0; t < 9; ++t)
    for (const double frequency : {1.0, 0.03}) heads.angles.push_back(static_cast<double>(t) * frequency);
  const Values vector = random(12);
  Values qkv;
  for (int64_t t = 0; t < 9; ++t) qkv.insert(qkv.end(), vector.begin(), vector.end());
  const Values turned = heads_forward(s, qkv, heads);
  const auto score = [&](int64_t query, int64_t key) {
    double sum = 0;
    for (int64_t i = 0; i < 4; ++i) sum += turned[s.qkv(0, query, 0, 0, i)] * turned[s.qkv(0, key, 1, 0, i)];
    return sum;
  };
  for (int64_t t = 2; t < 9; ++t) EXPECT_NEAR(score(t, t - 2), score(2, 0), 1e-12);
  EXPECT_GT(std::abs(score(2, 0) - score(3, 0)), 1e-3);
}

TEST_F(ReferenceDecoder, ActivationGradients) {
  for (const Act act : {Act::gelu, Act::silu, Act::exact_gelu})
    for (const bool gated : {false, true}) {
      const Values x = random(2 * 5 * (gated ? 2 : 1)), d_y = random(2 * 5);
      expect_gradient(
          activate_gradient(d_y, x, 5, act, gated),
          [&](const Values& v) { return dot(activate(v, 5, act, gated), d_y); }, x);
    }
}

}  // namespace
}  // namespace amdahl::test::reference
