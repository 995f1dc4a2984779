// Numbers marked "scipy" were computed with scipy 1.10.1 (stats.t, stats.norm) and are copied here.
#include "stats/summary.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "stats/bootstrap.h"
#include "stats/distributions.h"
#include "stats/estimate.h"

namespace amdahl {
namespace {

const std::vector<double> kSamples{10.1, 9.8, 10.4, 10.0, 9.9, 10.3, 10.2, 9.7};

TEST(StatsSummary, DistributionsAgreeWithScipy) {
  EXPECT_NEAR(student_t_quantile(0.975, 1), 12.706204736432095, 1e-6);
  EXPECT_NEAR(student_t_quantile(0.975, 4), 2.7764451051977987, 1e-7);
  EXPECT_NEAR(student_t_quantile(0.975, 49), 2.009575234489209, 1e-7);
  EXPECT_NEAR(student_t_upper_tail(2.5, 13.7), 0.012892328235686546, 1e-14);
  EXPECT_NEAR(normal_quantile(0.975), 1.959963984540054, 1e-12);
  EXPECT_NEAR(normal_upper_tail(1.5), 0.06680720126885807, 1e-14);
}

TEST(StatsSummary, IntervalOfTheMeanAgreesWithScipy) {
  const SampleSummary s = summarise(kSamples);
  EXPECT_EQ(s.n, 8);
  EXPECT_NEAR(s.mean, 10.05, 1e-12);
  ASSERT_TRUE(s.ci);
  EXPECT_NEAR(s.ci->low, 9.845217532822033, 1e-9);
  EXPECT_NEAR(s.ci->high, 10.254782467177968, 1e-9);
  EXPECT_NEAR(s.median, 10.05, 1e-12);
  EXPECT_EQ(s.num_outliers, 0);
  EXPECT_EQ(s.mean_without_outliers, s.mean);
}

TEST(StatsSummary, FlagsOutliersAndGivesBothFigures) {
  std::vector<double> samples = kSamples;
  samples.push_back(30.0);
  const SampleSummary s = summarise(samples);
  EXPECT_EQ(s.n, 9);
  EXPECT_EQ(s.num_outliers, 1);
  EXPECT_NEAR(s.mean_without_outliers, 10.05, 1e-12);
  EXPECT_GT(s.mean, 12.0);
  EXPECT_LT(s.ci_without_outliers->half_width(), s.ci->half_width());
  EXPECT_EQ(s.maximum, 30.0);
}

TEST(StatsSummary, ModifiedZIsTheFormula) {
  const std::vector<double> samples{1, 2, 3, 4, 100};  // median 3, MAD 1
  EXPECT_NEAR(modified_z(samples)[4], 0.6745 * 97, 1e-9);
  EXPECT_EQ(without_outliers(samples).size(), 4u);
}

TEST(StatsSummary, ZeroMadFlagsNothing) {
  const std::vector<double> samples{5, 5, 5, 5, 900};
  const SampleSummary s = summarise(samples);
  EXPECT_EQ(s.mad, 0);
  EXPECT_EQ(s.num_outliers, 0);
  EXPECT_EQ(s.mean_without_outliers, s.mean);
}

TEST(StatsSummary, DegenerateSetsAreDefinedAndNeverNan) {
  EXPECT_EQ(summarise({}).n, 0);
  EXPECT_FALSE(summarise({}).ci);

  const std::vector<double> one{7.5};
  const SampleSummary single = summarise(one);
  EXPECT_EQ(single.mean, 7.5);
  EXPECT_EQ(single.median, 7.5);
  EXPECT_EQ(single.sd, 0);
  EXPECT_FALSE(single.ci);
  EXPECT_FALSE(single.median_ci);

  const std::vector<double> equal(10, 0.1);
  const SampleSummary same = summarise(equal);
  EXPECT_EQ(same.mean, 0.1);  // exactly: no rounding may invent a spread
  EXPECT_EQ(same.sd, 0);
  EXPECT_EQ(same.ci, (Interval{0.1, 0.1}));
  EXPECT_EQ(same.median_ci, (Interval{0.1, 0.1}));

  const std::vector<double> zero_mean{-1, 1, -2, 2, 0};
  EXPECT_EQ(summarise(zero_mean).mean, 0);
  EXPECT_TRUE(std::isfinite(summarise(zero_mean).ci->low));
}

TEST(StatsBootstrap, IsDeterministicAndSeeded) {
  BootstrapOptions other;
  other.seed = 7;
  const auto first = bootstrap_median(kSamples);
  ASSERT_TRUE(first);
  EXPECT_EQ(first, bootstrap_median(kSamples));
  EXPECT_NE(first, bootstrap_median(kSamples, other));
  EXPECT_TRUE(first->low < 10.05 && 10.05 < first->high);
  EXPECT_FALSE(bootstrap_median(std::vector<double>{1, 2, 3, 4})) << "too few";
}

TEST(Estimates, DivideAddAndMultiply) {
  const Estimate time{200, Interval{190, 220}}, half{100, Interval{100, 100}}, bare{50, {}};
  EXPECT_EQ(rate_of(1000, time), (Estimate{5, Interval{1000.0 / 220, 1000.0 / 190}}));
  EXPECT_EQ(scaled(time, 2), (Estimate{400, Interval{380, 440}}));
  const Estimate ratio = ratio_of(time, half);  // without an error below: that of the time
  EXPECT_EQ(ratio.value, 2);
  EXPECT_NEAR(ratio.ci->low, 1.9, 1e-12);
  EXPECT_NEAR(ratio.ci->high, 2.2, 1e-12);
  const Estimate turned = ratio_of(half, time);
  EXPECT_NEAR(turned.ci->low * ratio.ci->high, 1, 1e-12);
  EXPECT_FALSE(ratio_of(time, bare).ci);
  const Weighted parts[] = {{time, 1}, {time, -1}};  // 10 down and 20 up, the other way round in the second
  EXPECT_NEAR(sum_of(parts).ci->low, -std::sqrt(500.0), 1e-12);
  EXPECT_NEAR(sum_of(parts).ci->high, std::sqrt(500.0), 1e-12);
  const Estimate both[] = {{2, Interval{2, 2}}, {8, Interval{8, 8}}};
  EXPECT_NEAR(geometric_mean(both).value, 4, 1e-12);
  EXPECT_NEAR(geometric_mean(both).ci->high, 4, 1e-12);
}

}  // namespace
}  // namespace amdahl
