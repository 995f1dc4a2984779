// Numbers marked "scipy" were computed with scipy 1.10.1 (ttest_ind(equal_var=False), mannwhitneyu, t.sf) and copied
// here.
#include "stats/compare.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "stats/hypothesis.h"
#include "stats/stopping.h"

namespace amdahl {
namespace {

const std::vector<double> kA{10.1, 9.8, 10.4, 10.0, 9.9, 10.3, 10.2, 9.7};
const std::vector<double> kB{10.6, 10.9, 10.5, 11.2, 10.25, 10.8};

TEST(StatsCompare, WelchAgreesWithScipy) {
  const TestResult r = welch_t(kA, kB);
  EXPECT_NEAR(r.statistic, -4.090464947320132, 1e-10);
  EXPECT_NEAR(r.df, 8.855354203984403, 1e-9);
  EXPECT_NEAR(r.p, 0.0028094461309114698, 1e-12);
}

TEST(StatsCompare, MannWhitneyAgreesWithScipy) {
  EXPECT_EQ(mann_whitney(kA, kB).statistic, 2.0);
  EXPECT_NEAR(mann_whitney(kA, kB).p, 0.002664002664002664, 1e-14);  // exact
  EXPECT_NEAR(mann_whitney(kB, kA).p, 0.002664002664002664, 1e-14);
  const std::vector<double> g{1.0, 1.1, 5.0}, h{2.0, 2.2, 2.4, 2.6};
  EXPECT_NEAR(mann_whitney(g, h).p, 0.6285714285714286, 1e-14);  // exact
  const std::vector<double> c{1, 2, 2, 3, 3, 3, 4, 5, 6, 7}, d{2, 3, 4, 4, 5, 6, 6, 7, 8, 8, 9};
  EXPECT_EQ(mann_whitney(c, d).statistic, 26.5);
  EXPECT_NEAR(mann_whitney(c, d).p, 0.04682250687805345, 1e-12);  // ties, normal approximation
  std::vector<double> e, f;
  for (int i = 0; i < 12; ++i) e.push_back(i * 1.3 + 0.1);
  for (int i = 0; i < 15; ++i) f.push_back(i * 1.17 + 2.0);
  EXPECT_NEAR(mann_whitney(e, f).p, 0.16432927953806642, 1e-12);  // too large for the exact test
}

TEST(StatsCompare, HolmIsTheStepDownProcedure) {
  const std::vector<double> p{0.01, 0.04, 0.03, 0.005, 0.9};
  const std::vector<double> expected{0.04, 0.09, 0.09, 0.025, 0.9};
  const std::vector<double> adjusted = holm(p);
  for (size_t i = 0; i < p.size(); ++i) EXPECT_NEAR(adjusted[i], expected[i], 1e-15);
  EXPECT_TRUE(holm({}).empty());
}

TEST(StatsCompare, EquivalenceAgreesWithScipy) {
  const std::vector<double> p{100.1, 99.9, 100.3, 99.8, 100.0, 100.2}, q{100.2, 100.4, 99.9, 100.1, 100.3, 100.0};
  EXPECT_NEAR(equivalence(p, q, 0.01).p, 3.881333990470728e-06, 1e-12);
  EXPECT_NEAR(equivalence(kA, kB, 0.01).p, 0.996311920150309, 1e-9);
}

TEST(StatsCompare, DegenerateSetsAreDefinedAndNeverNan) {
  const std::vector<double> one{5.0}, fives(6, 5.0), sixes(6, 6.0), zeros(6, 0.0);
  EXPECT_EQ(welch_t(one, fives).p, 1);
  EXPECT_EQ(welch_t(fives, fives).p, 1);
  EXPECT_EQ(welch_t(fives, sixes).p, 0);
  EXPECT_EQ(mann_whitney(fives, fives).p, 1);
  EXPECT_EQ(mann_whitney({}, fives).p, 1);
  EXPECT_EQ(equivalence(fives, fives, 0.01).p, 0);
  EXPECT_EQ(equivalence(fives, sixes, 0.01).p, 1);
  EXPECT_EQ(equivalence(zeros, zeros, 0.01).p, 1);
  for (const auto* first : {&one, &fives, &sixes, &zeros})
    for (const auto* second : {&one, &fives, &sixes, &zeros}) {
      const PairTest t = test_pair({*first, *second});
      for (double x : {t.ratio, t.p_welch, t.p_mann_whitney.value_or(1), t.p_holm, t.p_same})
        EXPECT_TRUE(std::isfinite(x));
      EXPECT_TRUE(!t.ci || (std::isfinite(t.ci->low) && std::isfinite(t.ci->high)));
    }
  EXPECT_EQ(test_pair({fives, fives}).verdict, Verdict::same);
  EXPECT_EQ(test_pair({fives, sixes}).verdict, Verdict::faster);  // smaller is faster
  EXPECT_EQ(test_pair({sixes, fives}).verdict, Verdict::slower);
  EXPECT_EQ(test_pair({one, fives}).verdict, Verdict::unclear);
  EXPECT_EQ(test_pair({one, fives}).more_runs, 4);
  EXPECT_EQ(test_pair({zeros, zeros}).verdict, Verdict::unclear);
}

TEST(StatsCompare, DirectionDecidesWhoIsFaster) {
  const PairTest time = test_pair({kA, kB, Direction::smaller_is_faster});
  const PairTest rate = test_pair({kA, kB, Direction::larger_is_faster});
  EXPECT_EQ(time.verdict, Verdict::faster);
  EXPECT_EQ(rate.verdict, Verdict::slower);
  EXPECT_GT(time.ratio, 1);
  EXPECT_LT(rate.ratio, 1);
  EXPECT_NEAR(time.ratio * rate.ratio, 1, 1e-12);
  EXPECT_EQ(time.more_runs, 0);
}

TEST(StatsCompare, RecommendsOnTheIntervalNotThePoint) {
  EXPECT_EQ(recommend(Interval{1.10, 1.90}), Recommendation::multi_device);
  EXPECT_EQ(recommend(Interval{1.09, 1.90}), Recommendation::unclear);
  EXPECT_EQ(recommend(Interval{0.95, 1.10}), Recommendation::marginal);
  EXPECT_EQ(recommend(Interval{0.94, 1.10}), Recommendation::unclear);
  EXPECT_EQ(recommend(Interval{0.70, 0.949}), Recommendation::single_device);
  EXPECT_EQ(recommend(Interval{0.70, 0.95}), Recommendation::unclear);
  EXPECT_EQ(recommend(std::nullopt), Recommendation::unclear);
}

TEST(StatsCompare, SaysHowManyRunsWouldDecide) {
  EXPECT_EQ(runs_to_recommend(1.5, Interval{1.4, 1.6}, 10), 0);
  EXPECT_EQ(runs_to_recommend(1.15, Interval{1.05, 1.25}, 10), 30);  // half-width 0.1 to 0.05: 4 times the runs
  EXPECT_EQ(runs_to_recommend(1.10, Interval{1.05, 1.15}, 10), kMoreRunsLimit - 10);
  EXPECT_EQ(runs_to_recommend(1.2, std::nullopt, 1), 4);
}

PairTest tested(double ratio, double half, Verdict verdict, int64_t more_runs = 0) {
  PairTest test;
  test.ratio = ratio, test.ci = Interval{ratio - half, ratio + half};
  test.n_first = test.n_second = 10;
  test.verdict = verdict, test.more_runs = more_runs;
  return test;
}

TEST(StatsCompare, ARecommendationNeverSaysTheOppositeOfTheVerdict) {
  EXPECT_EQ(recommend(tested(1.3, 0.1, Verdict::faster)), Recommendation::multi_device);
  EXPECT_EQ(recommend(tested(0.8, 0.1, Verdict::slower)), Recommendation::single_device);
  // Holm's adjustment asks for more than the interval.
  EXPECT_EQ(recommend(tested(1.3, 0.1, Verdict::unclear)), Recommendation::unclear);
  EXPECT_EQ(recommend(tested(0.8, 0.1, Verdict::unclear)), Recommendation::unclear);
  for (const Verdict any : {Verdict::faster, Verdict::slower, Verdict::same, Verdict::unclear})
    EXPECT_EQ(recommend(tested(1.0, 0.04, any)), Recommendation::marginal);
  EXPECT_EQ(runs_to_recommend(tested(0.8, 0.1, Verdict::unclear, 7)), 7) << "what the verdict needs";
  EXPECT_EQ(runs_to_recommend(tested(1.15, 0.1, Verdict::unclear, 7)), 30);
  EXPECT_EQ(runs_to_recommend(tested(1.0, 0.04, Verdict::unclear, 7)), 0);
}

TEST(StatsCompare, ManyFurtherRunsAreNoAnswer) {
  EXPECT_TRUE(is_settled_by(500, 10));
  EXPECT_FALSE(is_settled_by(501, 10));
  EXPECT_TRUE(is_settled_by(900, 100));
  EXPECT_FALSE(is_settled_by(1001, 100));
  PairTest processes = tested(1, 0.1, Verdict::unclear);
  processes.level = TestLevel::processes, processes.processes_first = 5, processes.processes_second = 4;
  EXPECT_EQ(num_made(processes), 4);
}

TEST(StatsStopping, StopsWhenTheIntervalIsTightButNotBeforeFive) {
  const StopRule rule{0.01, 5, 50};
  const std::vector<double> four(4, 10.0), tight{10.0, 10.01, 9.99, 10.0, 10.01}, loose{10, 12, 8, 11, 9};
  EXPECT_FALSE(decide_stop(four, rule).stop);
  EXPECT_TRUE(decide_stop(tight, rule).stop);
  EXPECT_TRUE(decide_stop(tight, rule).tight);
  EXPECT_FALSE(decide_stop(loose, rule).stop);
  EXPECT_NEAR(*decide_stop(loose, rule).relative_half_width, 2.7764451051977987 * std::sqrt(2.5 / 5) / 10, 1e-9);
  EXPECT_FALSE(decide_stop(tight, {0, 5, 50}).stop);
  EXPECT_TRUE(decide_stop(loose, {0, 5, 5}).stop);
  EXPECT_FALSE(decide_stop(loose, {0, 5, 5}).tight);
  const std::vector<double> zero_mean{-1, 1, -1, 1, 0};
  EXPECT_FALSE(decide_stop(zero_mean, rule).stop);
  EXPECT_FALSE(decide_stop(zero_mean, rule).relative_half_width);
  EXPECT_FALSE(decide_stop({}, rule).stop);
}

TEST(StatsStopping, SeesAWarmUpTrend) {
  const std::vector<double> falling{9, 8.5, 8.7, 8, 7.9, 7.5, 7.6, 7.0};
  const Trend trend = trend_of(falling);
  EXPECT_TRUE(trend.trending);
  EXPECT_LT(trend.relative_drift, -0.15);
  const std::vector<double> harmless{8.000, 8.001, 8.002, 8.003, 8.004};  // certain, but 0.05 %
  EXPECT_FALSE(trend_of(harmless).trending);
}

}  // namespace
}  // namespace amdahl
