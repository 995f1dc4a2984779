#include "stats/compare.h"

#include <algorithm>
#include <cmath>

#include "stats/distributions.h"
#include "stats/hypothesis.h"
#include "stats/summary.h"

namespace amdahl {
namespace {

constexpr double kPower = 0.8;      // power: probability that the estimated runs give a verdict; the usual choice
constexpr int64_t kFewestRuns = 5;  // with fewer runs the noise estimate is too poor to extrapolate

int64_t clamp_runs(double runs) {
  if (!(runs < static_cast<double>(kMoreRunsLimit))) return kMoreRunsLimit;
  return static_cast<int64_t>(std::ceil(runs * (1 - 1e-12)));  // rounding error must not add a run
}

// Further runs per side needed to detect a difference of this size (normal approximation of the two-sample t test) or
// to show equivalence within the margin, whichever needs fewer.
int64_t runs_to_settle(const Moments& a, const Moments& b, size_t num_tests) {
  const int64_t n = std::min(a.n, b.n);
  if (n < kFewestRuns) return kFewestRuns - n;
  const double variance = a.sd * a.sd + b.sd * b.sd;
  const double difference = std::abs(a.mean - b.mean);
  const double room = kSameMargin * b.mean - difference;
  const double power = normal_quantile(kPower);
  const double differ_z = normal_quantile(1 - kSignificance / 2 / static_cast<double>(num_tests)) + power;
  const double same_z = normal_quantile(1 - kSameSignificance) + power;
  double runs = static_cast<double>(kMoreRunsLimit);
  if (difference > 0) runs = std::min(runs, differ_z * differ_z * variance / (difference * difference));
  if (room > 0) runs = std::min(runs, same_z * same_z * variance / (room * room));
  return std::max<int64_t>(1, clamp_runs(runs) - n);
}

Verdict verdict_of(const PairTest& test) {
  if (test.p_same < kSameSignificance) return Verdict::same;
  if (!test.ci || !(test.p_holm < kSignificance)) return Verdict::unclear;
  if (test.ci->low > 1) return Verdict::faster;
  if (test.ci->high < 1) return Verdict::slower;
  return Verdict::unclear;
}

// Interval of the ratio of two means by the delta method; nullopt when a side has one sample.
std::optional<Interval> delta_interval(const Moments& above, const Moments& below) {
  if (above.n < 2 || below.n < 2) return std::nullopt;
  const auto share = [](const Moments& m) { return m.sd * m.sd / (static_cast<double>(m.n) * m.mean * m.mean); };
  const double a = share(above), b = share(below), variance = a + b, ratio = above.mean / below.mean;
  if (!(variance > 0)) return Interval{ratio, ratio};
  const double df =
      variance * variance / (a * a / static_cast<double>(above.n - 1) + b * b / static_cast<double>(below.n - 1));
  const double width = student_t_quantile(1 - (1 - kConfidence) / 2, df) * std::sqrt(variance);
  return Interval{ratio * std::exp(-width), ratio * std::exp(width)};
}

}  // namespace

std::vector<PairTest> test_grid(std::span<const PairSamples> pairs, const BootstrapOptions& options) {
  std::vector<PairTest> tests;
  for (const PairSamples& pair : pairs) {
    const bool larger = pair.direction == Direction::larger_is_faster;
    const SamplePair ratio{larger ? pair.first : pair.second, larger ? pair.second : pair.first};
    PairTest test;
    test.n_first = static_cast<int64_t>(pair.first.size());
    test.n_second = static_cast<int64_t>(pair.second.size());
    const double below = mean_of(ratio.denominator);
    test.ratio = below > 0 ? mean_of(ratio.numerator) / below : 1.0;
    if (below > 0) test.ci = bootstrap_ratio_of_means(ratio, options);
    test.p_welch = welch_t(pair.first, pair.second).p;
    test.p_mann_whitney = mann_whitney(pair.first, pair.second).p;
    test.p_same = equivalence(ratio.numerator, ratio.denominator, kSameMargin).p;
    tests.push_back(test);
  }
  std::vector<TestedPair> judged;
  for (size_t i = 0; i < tests.size(); ++i)
    judged.push_back({&tests[i], moments_of(pairs[i].first), moments_of(pairs[i].second)});
  judge_together(judged);
  return tests;
}

PairTest test_moments(const Moments& first, const Moments& second, Direction direction) {
  const bool larger = direction == Direction::larger_is_faster;
  const Moments &above = larger ? first : second, &below = larger ? second : first;
  PairTest test;
  test.n_first = first.n;
  test.n_second = second.n;
  test.p_mann_whitney.reset();
  test.p_welch = welch_t(first, second).p;
  test.p_same = equivalence(above, below, kSameMargin).p;
  if (above.mean > 0 && below.mean > 0) {
    test.ratio = above.mean / below.mean;
    test.ci = delta_interval(above, below);
  }
  const TestedPair judged{&test, first, second};
  judge_together(std::span(&judged, 1));
  return test;
}

void judge_together(std::span<const TestedPair> pairs) {
  std::vector<double> p_values;
  for (const TestedPair& pair : pairs) p_values.push_back(pair.test->p_welch);
  const std::vector<double> adjusted = holm(p_values);
  for (size_t i = 0; i < pairs.size(); ++i) {
    PairTest& test = *pairs[i].test;
    test.p_holm = adjusted[i];
    test.verdict = verdict_of(test);
    test.more_runs =
        test.verdict == Verdict::unclear ? runs_to_settle(pairs[i].first, pairs[i].second, pairs.size()) : 0;
  }
}

PairTest mirrored(const PairTest& test) {
  PairTest turned = test;
  std::swap(turned.n_first, turned.n_second);
  std::swap(turned.processes_first, turned.processes_second);
  if (test.ratio > 0) turned.ratio = 1 / test.ratio;
  turned.ci.reset();
  if (test.ci && test.ci->low > 0) turned.ci = Interval{1 / test.ci->high, 1 / test.ci->low};
  if (test.verdict == Verdict::faster) turned.verdict = Verdict::slower;
  if (test.verdict == Verdict::slower) turned.verdict = Verdict::faster;
  return turned;
}

PairTest test_pair(const PairSamples& pair, const BootstrapOptions& options) {
  return test_grid(std::span(&pair, 1), options).front();
}

Recommendation recommend(const std::optional<Interval>& speedup) {
  if (!speedup) return Recommendation::unclear;
  if (speedup->low >= kMultiBeneficial) return Recommendation::multi_device;
  if (speedup->high < kSinglePreferred) return Recommendation::single_device;
  if (speedup->low >= kSinglePreferred && speedup->high <= kMultiBeneficial) return Recommendation::marginal;
  return Recommendation::unclear;
}

Recommendation recommend(const PairTest& test) {
  const Recommendation by_interval = recommend(test.ci);
  if (by_interval == Recommendation::multi_device && test.verdict != Verdict::faster) return Recommendation::unclear;
  if (by_interval == Recommendation::single_device && test.verdict != Verdict::slower) return Recommendation::unclear;
  return by_interval;
}

int64_t runs_to_recommend(double ratio, const std::optional<Interval>& speedup, int64_t n) {
  if (recommend(speedup) != Recommendation::unclear) return 0;
  if (!speedup || n < kFewestRuns) return std::max<int64_t>(1, kFewestRuns - n);
  const double room = std::min(std::abs(ratio - kMultiBeneficial), std::abs(ratio - kSinglePreferred));
  const double needed = static_cast<double>(n) * std::pow(speedup->half_width() / room, 2);
  return std::max<int64_t>(1, clamp_runs(room > 0 ? needed : static_cast<double>(kMoreRunsLimit)) - n);
}

int64_t runs_to_recommend(const PairTest& test) {
  if (recommend(test) != Recommendation::unclear) return 0;
  const int64_t by_interval = runs_to_recommend(test.ratio, test.ci, num_made(test));
  return by_interval > 0 ? by_interval : test.more_runs;
}

int64_t num_made(const PairTest& test) {
  return test.level == TestLevel::runs ? std::min(test.n_first, test.n_second)
                                       : std::min(test.processes_first, test.processes_second);
}

bool is_settled_by(int64_t more_runs, int64_t made) {
  constexpr int64_t kMost = 500, kMostTimes = 10;
  return more_runs <= std::max(kMost, kMostTimes * made);
}

}  // namespace amdahl
