#include "stats/compare.h"

#include <algorithm>
#include <cmath>

#include "stats/distributions.h"
#include "stats/estimate.h"
#include "stats/hypothesis.h"
#include "stats/summary.h"

namespace amdahl {
namespace {

constexpr double kPower = 0.8;  // power: probability that the estimated runs give a verdict; the usual choice

int64_t clamp_runs(double runs) {
  if (!(runs < static_cast<double>(kMoreRunsLimit))) return kMoreRunsLimit;
  return static_cast<int64_t>(std::ceil(runs * (1 - 1e-12)));  // rounding error must not add a run
}

// Further runs per side needed to detect a difference of this size (normal approximation of the two-sample t test and
// of the interval, whichever needs more) or to show equivalence within the margin, whichever needs fewer.
int64_t runs_to_settle(const Moments& a, const Moments& b, size_t num_tests, TestLevel level) {
  const int64_t n = std::min(a.n, b.n);
  if (n < kFewestRuns) return kFewestRuns - n;
  const double variance = a.sd * a.sd + b.sd * b.sd;
  const double difference = std::abs(a.mean - b.mean);
  const double room = kSameMargin * b.mean - difference;
  const double power = normal_quantile(kPower);
  const double test_z = normal_quantile(1 - kSignificance / 2 / static_cast<double>(num_tests)) + power;
  const double interval_z = normal_quantile(0.5 + kConfidence / 2) + power;
  const double differ_z = std::max(test_z, interval_z * (level == TestLevel::runs ? std::sqrt(kMedianEfficiency) : 1));
  const double same_z = normal_quantile(1 - kSameSignificance) + power;
  double runs = static_cast<double>(kMoreRunsLimit);
  if (difference > 0) runs = std::min(runs, differ_z * differ_z * variance / (difference * difference));
  if (room > 0) runs = std::min(runs, same_z * same_z * variance / (room * room));
  return std::max<int64_t>(1, clamp_runs(runs) - n);
}

Verdict verdict_of(const PairTest& test) {
  if (test.p_same < kSameSignificance && std::abs(test.ratio - 1) <= kSameMargin) return Verdict::same;
  if (!test.ci || !(test.p_holm < kSignificance)) return Verdict::unclear;
  if (test.ci->low > 1) return Verdict::faster;
  if (test.ci->high < 1) return Verdict::slower;
  return Verdict::unclear;
}

struct Side {
  Estimate estimate;
  Moments moments;
};

// Without Holm's adjustment and the verdict.
PairTest test_of(const Side& first, const Side& second, Direction direction) {
  const bool larger = direction == Direction::larger_is_faster;
  const Side &above = larger ? first : second, &below = larger ? second : first;
  PairTest test;
  test.n_first = first.moments.n;
  test.n_second = second.moments.n;
  test.p_welch = welch_t(first.moments, second.moments).p;
  test.p_same = equivalence(above.moments, below.moments, kSameMargin).p;
  if (below.estimate.value > 0) {
    const Estimate ratio = ratio_of(above.estimate, below.estimate);
    test.ratio = ratio.value;
    test.ci = ratio.ci;
  }
  if (has_too_few_runs(test)) make_untested(test);
  return test;
}

}  // namespace

std::vector<PairTest> test_grid(std::span<const PairSamples> pairs, const BootstrapOptions& options) {
  const auto side = [&](std::span<const double> samples) {
    return Side{{median_of(samples), bootstrap_median(samples, options)}, moments_of(samples)};
  };
  std::vector<PairTest> tests;
  std::vector<std::pair<Moments, Moments>> moments;
  for (const PairSamples& pair : pairs) {
    const Side first = side(pair.first), second = side(pair.second);
    moments.emplace_back(first.moments, second.moments);
    tests.push_back(test_of(first, second, pair.direction));
    if (!has_too_few_runs(tests.back())) tests.back().p_mann_whitney = mann_whitney(pair.first, pair.second).p;
  }
  std::vector<TestedPair> judged;
  for (size_t i = 0; i < tests.size(); ++i) judged.push_back({&tests[i], moments[i].first, moments[i].second});
  judge_together(judged);
  return tests;
}

PairTest test_summaries(const SampleSummary& first, const SampleSummary& second, Direction direction) {
  const auto side = [](const SampleSummary& s) { return Side{s.estimate(), {s.n, s.mean, s.sd}}; };
  PairTest test = test_of(side(first), side(second), direction);
  test.p_mann_whitney.reset();
  const TestedPair judged{&test, side(first).moments, side(second).moments};
  judge_together(std::span(&judged, 1));
  return test;
}

void make_untested(PairTest& test) {
  test.ci.reset();
  test.p_mann_whitney.reset();
  test.p_welch = test.p_same = test.p_holm = 1;
  test.verdict = Verdict::unclear;
}

bool has_too_few_runs(const PairTest& test) { return std::min(test.n_first, test.n_second) < kFewestRuns; }

void judge_together(std::span<const TestedPair> pairs) {
  std::vector<double> p_values;
  for (const TestedPair& pair : pairs) p_values.push_back(pair.test->p_welch);
  const std::vector<double> adjusted = holm(p_values);
  for (size_t i = 0; i < pairs.size(); ++i) {
    PairTest& test = *pairs[i].test;
    test.p_holm = adjusted[i];
    test.verdict = verdict_of(test);
    test.more_runs = test.verdict == Verdict::unclear
                         ? runs_to_settle(pairs[i].first, pairs[i].second, pairs.size(), test.level)
                         : 0;
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

std::optional<SizeCrossover> recommended_from(const std::map<int64_t, bool>& recommended) {
  std::optional<SizeCrossover> crossover;
  int64_t below = 0;
  for (const auto& [size, several] : recommended) {
    if (!several)
      crossover.reset(), below = size;
    else if (!crossover)
      crossover = SizeCrossover{size, below, recommended.rbegin()->first};
  }
  return crossover;
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
