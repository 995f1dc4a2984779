// Verdicts from two sample sets, and recommendations from the interval of a speedup.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "amdahl/summary.h"
#include "stats/bootstrap.h"
#include "stats/moments.h"

namespace amdahl {

// A test at 0.05 calls equal configurations different in 5 % of trials on average, so about half of all sets of trials
// exceed 5 %. 0.025 keeps the rate at 5 % or less, and still finds a 3 % slowdown under 2 % noise.
inline constexpr double kSignificance = 0.025;
inline constexpr double kSameSignificance = 0.05;   // each of the two one-sided tests
inline constexpr double kSameMargin = 0.01;         // SAME: ratio within 1 +- this
inline constexpr double kMultiBeneficial = 1.10;    // lower end of the speedup's interval at least this
inline constexpr double kSinglePreferred = 0.95;    // upper end below this
inline constexpr int64_t kMoreRunsLimit = 100'000;  // estimates are capped at this

/// Whether a larger or a smaller sample means faster.
enum class Direction { larger_is_faster, smaller_is_faster };

struct PairSamples {
  std::span<const double> first;
  std::span<const double> second;
  Direction direction = Direction::smaller_is_faster;
};

/// Tests one pair; p_holm, verdict and more_runs are those of a grid with one pair.
PairTest test_pair(const PairSamples& pair, const BootstrapOptions& options = {});
/// Tests every pair of a grid, with Holm's adjustment over all of it. Ratio and interval are those of `ratio_of` the
/// two medians. A side of fewer than five runs gives a ratio, no interval and UNCLEAR. SAME when the two one-sided
/// tests reject both ends of 1 +- 1 % and the ratio is within; else FASTER or SLOWER when p_holm < 0.025 and the
/// interval of the ratio excludes 1; else UNCLEAR with the estimated number of further runs for a decision.
std::vector<PairTest> test_grid(std::span<const PairSamples> pairs, const BootstrapOptions& options = {});

/// Like test_pair, for two sets of which only the summaries are known; p_mann_whitney is absent.
PairTest test_summaries(const SampleSummary& first, const SampleSummary& second, Direction direction);

/// Leaves the ratio of a test, and takes its interval and p values away.
void make_untested(PairTest& test);
/// Whether a side has fewer than five runs.
bool has_too_few_runs(const PairTest& test);

/// An existing test with the moments of the sets that it compared.
struct TestedPair {
  PairTest* test = nullptr;
  Moments first, second;
};
/// Repeats Holm's adjustment over all of these tests and updates their verdicts and more_runs.
void judge_together(std::span<const TestedPair> pairs);

/// The same test with first and second swapped.
PairTest mirrored(const PairTest& test);

/// lower end >= 1.10 multi_device; inside [0.95, 1.10] marginal; upper end < 0.95 single_device; else unclear.
Recommendation recommend(const std::optional<Interval>& speedup);
/// Like recommend(test.ci), but multi_device requires verdict FASTER and single_device verdict SLOWER: Holm's
/// adjustment may be stricter than the interval.
Recommendation recommend(const PairTest& test);

/// Whether several devices are recommended, by size. nullopt when they are not at the largest one.
std::optional<SizeCrossover> recommended_from(const std::map<int64_t, bool>& recommended);

/// Estimated further runs per side until the interval of this half-width around `ratio` excludes the thresholds of
/// `recommend`; 0 when it already decides.
int64_t runs_to_recommend(double ratio, const std::optional<Interval>& speedup, int64_t n);
/// The same for a test, in the unit of num_made(); test.more_runs when the interval decides but the verdict does not.
int64_t runs_to_recommend(const PairTest& test);

/// Size of the smaller side of a test, in the unit of its further runs: runs, or processes when `level` is not `runs`.
int64_t num_made(const PairTest& test);
/// Whether an estimate of further runs is worth acting on: at most 500, or at most ten times the number made. Beyond
/// that the difference is too small relative to the spread, and the estimate too uncertain.
bool is_settled_by(int64_t more_runs, int64_t made);

}  // namespace amdahl
