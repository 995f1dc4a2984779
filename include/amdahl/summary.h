// What a study says: cells with their statistics, comparisons with their verdicts, and where all of it comes from.
// Plain data. A number that cannot be known (the interval of one sample, a counter that was not read) is absent.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "amdahl/error.h"
#include "amdahl/record.h"

namespace amdahl {

/// A 95 % interval unless its name says otherwise.
struct Interval {
  double low = 0;
  double high = 0;

  double half_width() const { return (high - low) / 2; }
  bool operator==(const Interval&) const = default;
};

/// Statistics of one sample set. All values have the unit of the samples; n counts independent runs.
struct SampleSummary {
  int64_t n = 0;
  double mean = 0;
  double sd = 0;  // n - 1 in the denominator; 0 when n < 2
  double median = 0;
  double mad = 0;  // median absolute deviation, not scaled
  double minimum = 0;
  double maximum = 0;
  std::optional<Interval> ci;         // Student t interval of the mean; absent when n < 2
  std::optional<Interval> median_ci;  // percentile bootstrap; absent when n < 2
  int64_t num_outliers = 0;           // |0.6745 (x - median) / mad| > 3.5
  double mean_without_outliers = 0;
  double sd_without_outliers = 0;
  std::optional<Interval> ci_without_outliers;

  bool operator==(const SampleSummary&) const = default;
};

/// What makes two runs samples of the same thing. Ordered, so that tables come out in one order.
struct CellKey {
  std::string model;
  int64_t num_parameters = 0;
  std::string scaling;  // "strong" or "weak"
  std::string math;     // "fp32", "tf32", "bf16"
  int64_t global_batch = 0;
  int64_t devices = 1;
  std::string strategy;
  std::string launch;   // "eager", "graph"
  std::string backend;  // "cpu", "cuda"
  std::string optimizer;
  int64_t accumulate = 1;
  bool overlap = true;
  int64_t bucket_bytes = 0;
  std::string data;

  int64_t device_batch() const { return devices > 0 ? global_batch / devices : global_batch; }
  auto operator<=>(const CellKey&) const = default;
};

/// Where the step's time went, in us: mean over runs of the mean per accounted step, of the slowest rank's account.
/// compute + exposed_communication + waiting + launch_gaps + input + optimizer = step; forward and backward split
/// compute.
struct StepAccount {
  double step_us = 0;
  double forward_us = 0;
  double backward_us = 0;
  double compute_us = 0;
  double exposed_communication_us = 0;  // while no compute ran on that device
  double waiting_us = 0;                // for the slowest rank
  double launch_gaps_us = 0;
  double input_us = 0;
  double optimizer_us = 0;
  double total_communication_us = 0;  // exposed or hidden
  double comm_bytes = 0;              // per step and device
  int64_t n = 0;                      // runs that carry an account

  double parts_us() const {
    return compute_us + exposed_communication_us + waiting_us + launch_gaps_us + input_us + optimizer_us;
  }
  /// Step time that no part explains; negative when the parts overlap.
  double unaccounted_us() const { return step_us - parts_us(); }
  bool operator==(const StepAccount&) const = default;
};

/// One configuration with all its runs. `status` is not ok when no run of it succeeded; then n is 0.
struct StudyCell {
  CellKey key;
  Status status;
  Origin origin = Origin::measured;
  int64_t steps = 0;   // timed steps of one run
  int64_t warmup = 0;  // steps before them
  SampleSummary step_time_us;
  SampleSummary throughput;                   // samples/s over all devices
  std::optional<double> memory_peak_bytes;    // per device, largest over runs
  std::optional<double> utilisation_percent;  // mean over runs
  std::optional<double> loss_first;
  std::optional<double> loss_last;
  std::optional<StepAccount> account;
  int64_t num_failed = 0;  // runs without a result, their reasons are in StudySummary::notes
  int64_t num_waived = 0;
};

// `unclear` comes first, so that a value nobody set claims nothing.
enum class Verdict { unclear, faster, slower, same };
enum class Recommendation { unclear, multi_device, marginal, single_device };

/// "FASTER", "SLOWER", "SAME", "UNCLEAR".
constexpr std::string_view to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::faster:
      return "FASTER";
    case Verdict::slower:
      return "SLOWER";
    case Verdict::same:
      return "SAME";
    case Verdict::unclear:
      break;
  }
  return "UNCLEAR";
}

/// "multi", "marginal", "single", "unclear". The report words them for GPUs or for CPU virtual devices.
constexpr std::string_view to_string(Recommendation recommendation) {
  switch (recommendation) {
    case Recommendation::multi_device:
      return "multi";
    case Recommendation::marginal:
      return "marginal";
    case Recommendation::single_device:
      return "single";
    case Recommendation::unclear:
      break;
  }
  return "unclear";
}

/// Ratio of two sample sets with its tests. `ratio` > 1 means that the first is faster.
struct PairTest {
  double ratio = 1;
  std::optional<Interval> ci;  // bootstrap of the ratio of means; absent when either side has one sample
  int64_t n_first = 0;
  int64_t n_second = 0;
  double p_welch = 1;                          // two-tailed
  std::optional<double> p_mann_whitney = 1.0;  // two-tailed; absent where mean and sd are all that is known
  double p_holm = 1;                           // p_welch adjusted over the grid it was tested in
  double p_same = 1;                           // two one-sided tests of a ratio within 1 +- 0.01
  Verdict verdict = Verdict::unclear;
  int64_t more_runs = 0;  // estimated further runs of each side that would settle an UNCLEAR; 0 when settled

  bool operator==(const PairTest&) const = default;
};

/// A multi-device cell against the best one-device cell of its batch (strong: same global batch; weak: same device
/// batch).
struct StudyComparison {
  CellKey single;
  CellKey multi;
  PairTest test;                          // first is multi; ratio is the speedup, test.ci its interval
  double efficiency = 0;                  // speedup / devices
  std::optional<Interval> efficiency_ci;  // the speedup's interval / devices
  Recommendation recommendation = Recommendation::unclear;
};

/// Geometric mean of the speedups of one model, scaling mode, math mode, launch mode and device count over its batches.
struct AverageSpeedup {
  std::string model;
  std::string scaling;
  std::string math;
  std::string strategy;
  std::string launch;
  int64_t devices = 0;
  int64_t num_batches = 0;
  double geometric_mean = 1;
  std::optional<Interval> ci;  // bootstrap over the runs of every cell
  Recommendation recommendation = Recommendation::unclear;
  bool batches_disagree = false;  // one batch says several devices, another one device: the average decides nothing
};

struct StudySummary {
  std::string device_kind;  // "cpu-virtual" or "cuda"
  std::vector<StudyCell> cells;
  std::vector<StudyComparison> comparisons;
  std::vector<AverageSpeedup> averages;
  std::string conclusion;
  std::vector<Provenance> provenance;  // distinct ones, start times apart
  std::vector<std::string> notes;      // failed and waived runs, missing baselines, truncated files
};

}  // namespace amdahl
