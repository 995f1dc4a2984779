// Numbers marked "scipy" were computed with scipy 1.10.1 (stats.t, stats.norm) and are copied here.
#include "stats/summary.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "stats/bootstrap.h"
#include "stats/distributions.h"

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

  const std::vector<double> zero_mean{-1, 1, -2, 2};
  EXPECT_EQ(summarise(zero_mean).mean, 0);
  EXPECT_TRUE(std::isfinite(summarise(zero_mean).ci->low));
}

TEST(StatsBootstrap, IsDeterministicAndSeeded) {
  EXPECT_EQ(bootstrap_median(kSamples), bootstrap_median(kSamples));
  BootstrapOptions other;
  other.seed = 7;
  const std::vector<double> doubled{20.2, 19.6, 20.8, 20.0, 19.8, 20.6, 20.4, 19.4};
  const auto first = bootstrap_ratio_of_means({doubled, kSamples});
  EXPECT_EQ(first, bootstrap_ratio_of_means({doubled, kSamples}));
  EXPECT_NE(first, bootstrap_ratio_of_means({doubled, kSamples}, other));
  ASSERT_TRUE(first);
  EXPECT_LT(first->low, 2.0);
  EXPECT_GT(first->high, 2.0);
  EXPECT_LT(first->half_width(), 0.15);
  const auto medians = bootstrap_ratio_of_medians({doubled, kSamples});
  ASSERT_TRUE(medians);
  EXPECT_TRUE(medians->low < 2.0 && medians->high > 2.0);
}

TEST(StatsBootstrap, GivesNoIntervalWhereNoneMeansAnything) {
  const std::vector<double> one{1.0}, zeros{0.0, 0.0}, two{1.0, 2.0};
  EXPECT_FALSE(bootstrap_median(one));
  EXPECT_FALSE(bootstrap_ratio_of_means({two, one}));
  EXPECT_FALSE(bootstrap_ratio_of_means({two, zeros}));
  const std::vector<SamplePair> none;
  EXPECT_FALSE(bootstrap_geometric_mean(none));
}

TEST(StatsBootstrap, GeometricMeanOfConstantRatiosIsExact) {
  const std::vector<double> four{4, 4, 4}, two{2, 2, 2}, one{1, 1, 1};
  const std::vector<SamplePair> pairs{{four, two}, {four, one}};  // ratios 2 and 4
  const auto interval = bootstrap_geometric_mean(pairs);
  ASSERT_TRUE(interval);
  EXPECT_NEAR(interval->low, std::sqrt(8.0), 1e-12);
  EXPECT_NEAR(interval->high, std::sqrt(8.0), 1e-12);
}

}  // namespace
}  // namespace amdahl
