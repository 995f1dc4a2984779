#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/philox.h"
#include "stats/compare.h"
#include "stats/summary.h"

namespace amdahl {
namespace {

std::vector<double> samples(uint32_t trial, uint32_t side, int n, double mean, double sd) {
  std::vector<double> values;
  for (int i = 0; i < n; ++i) {  // sums of twelve uniforms: near enough to normal
    double sum = -6;
    for (uint32_t k = 0; k < 12; ++k) sum += philox(11, trial, side, static_cast<uint32_t>(i), k).v[0] / 4294967296.0;
    values.push_back(mean + sd * sum);
  }
  return values;
}

TEST(Summaries, GiveTheTestsOfTheirSamples) {
  for (uint32_t trial = 0; trial < 50; ++trial) {
    const auto a = samples(trial, 0, 8, 100, 2), b = samples(trial, 1, 12, 100 + trial % 5, 3);
    const PairTest whole = test_pair({a, b}),
                   short_form = test_summaries(summarise(a), summarise(b), Direction::smaller_is_faster);
    EXPECT_DOUBLE_EQ(whole.p_welch, short_form.p_welch);
    EXPECT_DOUBLE_EQ(whole.p_same, short_form.p_same);
    EXPECT_EQ(whole.ratio, short_form.ratio);
    EXPECT_EQ(whole.ci, short_form.ci) << "one interval for the same data";
    EXPECT_EQ(whole.verdict, short_form.verdict);
    EXPECT_EQ(whole.n_first, short_form.n_first);
    EXPECT_TRUE(whole.p_mann_whitney);
    EXPECT_FALSE(short_form.p_mann_whitney);
  }
}

TEST(Summaries, FewerThanFiveRunsHaveNoInterval) {
  const std::vector<double> four{100, 101, 99, 100}, many = samples(1, 1, 20, 200, 1);
  const PairTest test = test_summaries(summarise(four), summarise(many), Direction::smaller_is_faster);
  EXPECT_EQ(test.ratio, summarise(many).median / 100);
  EXPECT_FALSE(test.ci);
  EXPECT_EQ(test.verdict, Verdict::unclear);
  EXPECT_EQ(test.p_welch, 1);
  EXPECT_EQ(test.more_runs, 1);
  EXPECT_TRUE(has_too_few_runs(test));
}

TEST(JudgeTogether, AdjustsOverAllAndGoesByTheAdjustedP) {
  // A difference that is clear alone and not among forty tests.
  const std::vector<double> a{97, 98, 99, 100, 101, 102, 103, 98.5, 100, 101.5};
  std::vector<double> b = a;
  for (double& value : b) value += 2.8;
  PairTest alone = test_pair({a, b});
  ASSERT_EQ(alone.verdict, Verdict::faster);
  std::vector<PairTest> tests(40, alone);
  std::vector<TestedPair> pairs;
  for (PairTest& test : tests) pairs.push_back({&test, moments_of(a), moments_of(b)});
  judge_together(pairs);
  EXPECT_NEAR(tests[0].p_holm, std::min(1.0, 40 * alone.p_welch), 1e-12);
  EXPECT_EQ(tests[0].verdict, Verdict::unclear);
  EXPECT_GT(tests[0].more_runs, 0);
  judge_together(std::span(pairs).first(1));
  EXPECT_EQ(tests[0], alone);
}

TEST(Mirrored, TurnsEverythingRound) {
  const auto a = samples(3, 0, 10, 100, 2), b = samples(3, 1, 7, 130, 2);
  const PairTest test = test_pair({a, b}), turned = mirrored(test);
  EXPECT_EQ(test.verdict, Verdict::faster);
  EXPECT_EQ(turned.verdict, Verdict::slower);
  EXPECT_DOUBLE_EQ(turned.ratio * test.ratio, 1);
  EXPECT_DOUBLE_EQ(turned.ci->low * test.ci->high, 1);
  EXPECT_EQ(turned.n_first, 7);
  EXPECT_EQ(mirrored(turned).verdict, test.verdict);
}

}  // namespace
}  // namespace amdahl
