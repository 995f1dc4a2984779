#include "stats/compare.h"

#include <algorithm>
#include <cmath>

#include "stats/distributions.h"
#include "stats/hypothesis.h"
#include "stats/summary.h"

namespace amdahl {
namespace {

constexpr double kPower = 0.8;      // chance that the estimated runs settle it, the usual choice
constexpr int64_t kFewestRuns = 5;  // below this no estimate of the noise is worth extrapolating

struct Moments {
  double mean;
  double sd;
};

int64_t clamp_runs(double runs) {
  if (!(runs < static_cast<double>(kMoreRunsLimit))) return kMoreRunsLimit;
  return static_cast<int64_t>(std::ceil(runs * (1 - 1e-12)));  // rounding error must not add a run
}

// Runs per side that show a difference of this size (normal approximation of the two-sample t test), or that show
// equivalence within the margin, whichever needs fewer; minus the runs there are.
int64_t runs_to_settle(const PairSamples& pair, size_t num_tests) {
  const int64_t n = static_cast<int64_t>(std::min(pair.first.size(), pair.second.size()));
  if (n < kFewestRuns) return kFewestRuns - n;
  const Moments a{mean_of(pair.first), sd_of(pair.first)}, b{mean_of(pair.second), sd_of(pair.second)};
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

}  // namespace

std::vector<PairTest> test_grid(std::span<const PairSamples> pairs, const BootstrapOptions& options) {
  std::vector<PairTest> tests;
  std::vector<double> p_values;
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
    p_values.push_back(test.p_welch);
    tests.push_back(test);
  }
  const std::vector<double> adjusted = holm(p_values);
  for (size_t i = 0; i < tests.size(); ++i) {
    tests[i].p_holm = adjusted[i];
    tests[i].verdict = verdict_of(tests[i]);
    if (tests[i].verdict == Verdict::unclear) tests[i].more_runs = runs_to_settle(pairs[i], pairs.size());
  }
  return tests;
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

int64_t runs_to_recommend(double ratio, const std::optional<Interval>& speedup, int64_t n) {
  if (recommend(speedup) != Recommendation::unclear) return 0;
  if (!speedup || n < kFewestRuns) return std::max<int64_t>(1, kFewestRuns - n);
  const double room = std::min(std::abs(ratio - kMultiBeneficial), std::abs(ratio - kSinglePreferred));
  const double needed = static_cast<double>(n) * std::pow(speedup->half_width() / room, 2);
  return std::max<int64_t>(1, clamp_runs(room > 0 ? needed : static_cast<double>(kMoreRunsLimit)) - n);
}

}  // namespace amdahl
