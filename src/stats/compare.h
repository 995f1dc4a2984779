// From two sample sets to a verdict, and from the interval of a speedup to a recommendation.
#pragma once

#include <span>
#include <vector>

#include "amdahl/summary.h"
#include "stats/bootstrap.h"
#include "stats/moments.h"

namespace amdahl {

// A test at 0.05 calls equal configurations different in 5 % of trials on average, so in more than 5 % of every second
// set of trials. Half of it keeps the promise of at most 5 %, and still finds a 3 % slowdown under 2 % noise.
inline constexpr double kSignificance = 0.025;
inline constexpr double kSameSignificance = 0.05;   // each of the two one-sided tests
inline constexpr double kSameMargin = 0.01;         // SAME: ratio within 1 +- this
inline constexpr double kMultiBeneficial = 1.10;    // lower end of the speedup's interval at least this
inline constexpr double kSinglePreferred = 0.95;    // upper end below this
inline constexpr int64_t kMoreRunsLimit = 100'000;  // no estimate is higher

/// Whether a larger or a smaller sample means faster.
enum class Direction { larger_is_faster, smaller_is_faster };

struct PairSamples {
  std::span<const double> first;
  std::span<const double> second;
  Direction direction = Direction::smaller_is_faster;
};

/// Tests one pair; p_holm, verdict and more_runs are those of a grid of one.
PairTest test_pair(const PairSamples& pair, const BootstrapOptions& options = {});
/// Tests every pair of a grid, with Holm's adjustment over all of it:
/// SAME when the two one-sided tests reject both ends of 1 +- 1 %; else FASTER or SLOWER when p_holm < 0.025 and the
/// interval of the ratio excludes 1; else UNCLEAR with the further runs that are estimated to settle it.
std::vector<PairTest> test_grid(std::span<const PairSamples> pairs, const BootstrapOptions& options = {});

/// As test_pair of two sets that are known by their moments alone: Welch's test and equivalence are the same, the
/// interval of the ratio is the delta method's on its logarithm with a t quantile, and p_mann_whitney is absent.
PairTest test_moments(const Moments& first, const Moments& second, Direction direction);

/// A test that is there already, with the moments of what it compared.
struct TestedPair {
  PairTest* test = nullptr;
  Moments first, second;
};
/// Holm's adjustment over all of these anew, with the verdicts and further runs that follow from it.
void judge_together(std::span<const TestedPair> pairs);

/// The same test with the second before the first.
PairTest mirrored(const PairTest& test);

/// lower end >= 1.10 multi_device; inside [0.95, 1.10] marginal; upper end < 0.95 single_device; else unclear.
Recommendation recommend(const std::optional<Interval>& speedup);
/// The same of `test.ci`, but several devices are recommended only with verdict FASTER and one only with SLOWER: Holm's
/// adjustment may ask for more than the interval does.
Recommendation recommend(const PairTest& test);

/// Further runs of each side until an interval of this half-width around `ratio` would leave the thresholds of
/// `recommend` outside; 0 when it already decides.
int64_t runs_to_recommend(double ratio, const std::optional<Interval>& speedup, int64_t n);
/// The same of a test, in its own unit; where the interval decides and the verdict does not, test.more_runs.
int64_t runs_to_recommend(const PairTest& test);

/// What the further runs of a test are counted in: runs, or processes where `level` is not `runs`; of the smaller side.
int64_t num_made(const PairTest& test);
/// Whether an estimate of further runs is one to act on: at most 500, or at most ten times what was made. Beyond that
/// the difference is too small for the spread, and the estimate too uncertain.
bool is_settled_by(int64_t more_runs, int64_t made);

}  // namespace amdahl
