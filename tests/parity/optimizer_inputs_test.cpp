// What optimizers read in each step on CPU virtual devices: decay of some tensors, a scaled gradient, a learning rate
// that changes, and the norm of a gradient, against float64.
#include <cstring>
#include <limits>

#include "cpu_ops_fixture.h"

namespace amdahl::test {
namespace {

using OptimizerInputsTest = CpuOpsTest;

struct AdamState {
  std::vector<float> params, m, v;
};

TEST_F(OptimizerInputsTest, AdamWDecaysItsLinesOnly) {
  constexpr float kRate = 1e-2f, kBeta1 = 0.9f, kBeta2 = 0.999f, kEpsilon = 1e-8f, kDecay = 0.3f;
  for (const int64_t n : {1, 63, 64, 65, 200, 1003})
    for (const int64_t first : {0, 64, 10, 127}) {
      std::vector<uint8_t> lines(static_cast<size_t>((first + n) / kDecayLine + 1));
      for (size_t i = 0; i < lines.size(); ++i) lines[i] = i % 3 != 1;
      AdamState state{random(n), random(n), random(n)};
      for (float& value : state.v) value = std::abs(value);
      const AdamState start = state;
      const auto grads = random(n);
      const float rate = 0.5f * kRate, scale = 0.25f;
      uint64_t step = 3;
      ops_->optimizer().adam_step(*stream_, {.params = state.params.data(),
                                             .grads = grads.data(),
                                             .m = state.m.data(),
                                             .v = state.v.data(),
                                             .n = n,
                                             .step = &step,
                                             .lr = kRate,
                                             .beta1 = kBeta1,
                                             .beta2 = kBeta2,
                                             .epsilon = kEpsilon,
                                             .factors = {&rate, &scale},
                                             .weight_decay = kDecay,
                                             .decays = lines.data(),
                                             .first = first});
      finish();
      std::vector<double> wanted(state.params.size());
      for (size_t i = 0; i < wanted.size(); ++i) {
        const double g = double{scale} * double{grads[i]};
        const double m = double{kBeta1} * double{start.m[i]} + (1 - double{kBeta1}) * g;
        const double v = double{kBeta2} * double{start.v[i]} + (1 - double{kBeta2}) * g * g;
        const bool decays = lines[static_cast<size_t>(first + static_cast<int64_t>(i)) / 64] != 0;
        wanted[i] = double{start.params[i]} * (decays ? 1 - double{rate} * double{kDecay} : 1) -
                    double{rate} * (m / (1 - std::pow(double{kBeta1}, 4))) /
                        (std::sqrt(v / (1 - std::pow(double{kBeta2}, 4))) + double{kEpsilon});
      }
      EXPECT_LT(error_of(state.params, wanted), kTolerance) << n << " from " << first;
    }
}

TEST_F(OptimizerInputsTest, NoDecayAndAScaleOfOneChangeNoBit) {
  constexpr int64_t kCount = 1003;
  const std::vector<uint8_t> none(32, 0);
  AdamState plain{random(kCount), random(kCount), random(kCount)};
  for (float& value : plain.v) value = std::abs(value);
  plain.params[5] = -0.0f;
  AdamState given = plain;
  const auto grads = random(kCount);
  const float rate = 1e-3f, one = 1;
  uint64_t step = 0;
  AdamStep a{
      plain.params.data(), grads.data(), plain.m.data(), plain.v.data(), kCount, &step, rate, 0.9f, 0.999f, 1e-8f};
  ops_->optimizer().adam_step(*stream_, a);
  a.params = given.params.data(), a.m = given.m.data(), a.v = given.v.data();
  a.factors = {&rate, &one}, a.weight_decay = 0.5f, a.decays = none.data(), a.lr = 99;
  ops_->optimizer().adam_step(*stream_, a);
  finish();
  EXPECT_EQ(std::memcmp(plain.params.data(), given.params.data(), kCount * sizeof(float)), 0);
  EXPECT_EQ(plain.m, given.m);
  EXPECT_EQ(plain.v, given.v);
}

TEST_F(OptimizerInputsTest, SgdFollowsRateAndScale) {
  const int64_t n = 257;
  std::vector<float> params = random(n), velocity = random(n);
  const auto grads = random(n);
  const float rate = 0.02f, scale = 0.125f;
  std::vector<double> wanted = widened(params);
  for (size_t i = 0; i < wanted.size(); ++i)
    wanted[i] -= double{rate} * (double{0.9f} * double{velocity[i]} + double{scale} * double{grads[i]});
  ops_->optimizer().sgd_step(*stream_,
                             {params.data(), grads.data(), velocity.data(), n, 7.0f, 0.9f, StepFactors{&rate, &scale}});
  finish();
  EXPECT_LT(error_of(params, wanted), kTolerance);
}

TEST_F(OptimizerInputsTest, NormOfSeveralRanges) {
  for (const int64_t n : {1, 15, 16, 17, 1003, 100'000}) {
    const auto values = random(2 * n);
    double squares = 0;
    for (const float value : values) squares += double{value} * double{value};
    float sum = 99, scale = 99;
    ops_->optimizer().sum_of_squares(*stream_, {values.data(), n, &sum, false});
    ops_->optimizer().sum_of_squares(*stream_, {values.data() + n, n, &sum, true});
    ops_->optimizer().clip_scale(*stream_, {&sum, 0.5f, &scale});
    finish();
    EXPECT_NEAR(sum, squares, 1e-6 * squares) << n;  // two roundings to float
    EXPECT_NEAR(scale, std::min(1.0, 0.5 / std::sqrt(squares)), 1e-5) << n;
  }
}

TEST_F(OptimizerInputsTest, AGradientWithinTheLimitIsNotScaled) {
  float sum = 4, scale = 99;  // norm 2
  ops_->optimizer().clip_scale(*stream_, {&sum, 2.1f, &scale});
  finish();
  EXPECT_EQ(scale, 1.0f);
  sum = 0;
  ops_->optimizer().clip_scale(*stream_, {&sum, 1.0f, &scale});
  finish();
  EXPECT_EQ(scale, 1.0f);
  sum = std::numeric_limits<float>::infinity();
  ops_->optimizer().clip_scale(*stream_, {&sum, 1.0f, &scale});
  finish();
  EXPECT_EQ(scale, 0.0f);
}

TEST_F(OptimizerInputsTest, RatesRiseAndFall) {
  const auto rates = [&](const RatePlan& plan, uint64_t steps) {
    std::vector<double> all;
    float rate = 0;
    for (uint64_t step = 0; step < steps; ++step) {
      ops_->optimizer().set_rate(*stream_, {plan, 2.0f, &step, &rate});
      finish();
      all.push_back(rate);
    }
    return all;
  };
  const auto expect_rates = [](const std::vector<double>& got, const std::vector<double>& wanted) {
    ASSERT_EQ(got.size(), wanted.size());
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], wanted[i], 1e-6) << "step " << i;
  };
  expect_rates(rates({RateSchedule::constant, 4, 0}, 6), {0.5, 1, 1.5, 2, 2, 2});
  expect_rates(rates({RateSchedule::linear, 0, 4}, 6), {2, 1.5, 1, 0.5, 0, 0});
  expect_rates(rates({RateSchedule::linear, 2, 4}, 5), {1, 2, 2, 1, 0});
  const double root = std::sqrt(2.0) / 2;
  expect_rates(rates({RateSchedule::cosine, 1, 5}, 7), {2, 2, 1 + root, 1, 1 - root, 0, 0});
  EXPECT_TRUE((RatePlan{}.is_constant()));
  EXPECT_FALSE((RatePlan{RateSchedule::constant, 1, 0}.is_constant()));
}

}  // namespace
}  // namespace amdahl::test
