// Statistics of samples and the summary of a study: cells, comparisons with verdicts, and provenance. A number that
// cannot be known (the interval of one sample, a counter that was not read) is absent. Functions of the caller are
// sampled and compared by the method of the verbs: warm-up until times are stable, samples, a statistical test. Plain
// data.
//
// Example: print the verdict of every comparison.
//   const amdahl::StudySummary summary = amdahl::run_report("runs/study", false).summary;
//   for (const amdahl::StudyComparison& c : summary.comparisons)
//     std::printf("batch %lld: %.2fx, %s\n", static_cast<long long>(c.multi.global_batch), c.test.ratio,
//                 std::string(to_string(c.test.verdict)).c_str());
//
// Example: compare two sort functions.
//   const amdahl::Comparison result = amdahl::compare_functions([&] { quick(data); }, [&] { merge(data); });
//   if (result.test.verdict == amdahl::Verdict::faster) puts("quick is faster");
//
// Sampled functions run on the calling thread and are thread-safe; measurements at one time disturb each other.
#pragma once

#include <cmath>
#include <compare>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "amdahl/error.h"
#include "amdahl/plan.h"
#include "amdahl/record.h"

namespace amdahl {

/// A 95 % confidence interval, unless its name says otherwise.
struct Interval {
  double low = 0;
  double high = 0;

  double half_width() const { return (high - low) / 2; }
  bool operator==(const Interval&) const = default;
};

/// A number with its interval, which is absent where nothing is known about its error.
struct Estimate {
  double value = 0;
  std::optional<Interval> ci;

  bool operator==(const Estimate&) const = default;
};

/// Statistics of one sample set, in the unit of the samples. n counts independent runs. Fewer than five runs give no
/// interval.
struct SampleSummary {
  int64_t n = 0;
  double mean = 0;
  double sd = 0;  // n - 1 in the denominator; 0 when n < 2
  double median = 0;
  double mad = 0;  // median absolute deviation, not scaled
  double minimum = 0;
  double maximum = 0;
  std::optional<Interval> ci;         // Student t interval of the mean
  std::optional<Interval> median_ci;  // percentile bootstrap; with several processes that of process_median
  int64_t num_outliers = 0;           // |0.6745 (x - median) / mad| > 3.5
  double mean_without_outliers = 0;
  double sd_without_outliers = 0;
  std::optional<Interval> ci_without_outliers;
  int64_t num_processes = 1;  // processes that measured the runs; with several, intervals are between processes
  double process_median = 0;  // geometric mean of the processes' medians; 0 with one process
  double process_sd = 0;      // standard deviation of the processes' medians around process_median

  /// What every table, ratio and rate is computed from: the median over runs; of several processes the geometric mean
  /// of their medians.
  Estimate estimate() const { return {num_processes > 1 ? process_median : median, median_ci}; }
  bool operator==(const SampleSummary&) const = default;
};

/// Identity of a study cell: runs with equal keys are samples of the same configuration. Its order is that of the rows
/// of tables.
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
  PlanOptions plan;  // those that are axes
  std::string data;

  int64_t device_batch() const { return devices > 0 ? global_batch / devices : global_batch; }
  auto operator<=>(const CellKey&) const = default;
};

/// An accounted step that differs from the measured step by more than this share gives no percentages.
inline constexpr double kAccountTolerance = 0.10;

/// How an account was made. differences: between steps with and without a component. partition: each moment of the
/// steps of a user's script is in one part. stamps: of older Records, time stamps inside the step; there the accounted
/// step is longer than the measured one, and forward and backward include launch gaps.
enum class AccountMethod { stamps, differences, partition };

/// Breakdown of a step's time, in us: of each part, its share of the measured step, the mean over runs, times the
/// estimate of the step time. The accounted step is compute + exposed_communication + waiting + launch_gaps + input +
/// optimizer; docs/method.md defines each. By differences, forward + backward = compute.
struct StepAccount {
  double measured_us = 0;  // the cell's estimate of the step time; 0 when not known
  double step_us = 0;      // the accounted step
  double forward_us = 0;
  double backward_us = 0;
  double compute_us = 0;
  double exposed_communication_us = 0;  // while the device computes nothing
  double waiting_us = 0;                // for the slowest rank
  double launch_gaps_us = 0;
  double launch_floor_us = 0;  // time of launch_kernels empty kernels replayed as a graph; 0: not captured
  double launch_kernels = 0;   // kernels of the step without communication
  double input_us = 0;
  double optimizer_us = 0;
  double total_communication_us = 0;  // exposed or hidden
  double comm_bytes = 0;              // per step and device
  double noise_us = 0;                // of the accounted step in one run: half the range over its rounds
  int64_t n = 0;                      // runs that the account is of
  AccountMethod method = AccountMethod::stamps;
  bool fused_update = false;  // backward also updates parameters; optimizer_us is what that adds to the step

  double parts_us() const {
    return compute_us + exposed_communication_us + waiting_us + launch_gaps_us + input_us + optimizer_us;
  }
  /// Accounted over measured step; 1 when the measured step is not known.
  double ratio() const { return measured_us > 0 ? step_us / measured_us : 1; }
  /// Whether components may be given as shares of the measured step.
  bool trusted() const { return step_us > 0 && std::abs(ratio() - 1) <= kAccountTolerance; }
  /// Launch time: the gaps where they were measured, else the floor of empty kernels.
  double launch_us() const { return launch_gaps_us > 0 ? launch_gaps_us : launch_floor_us; }
  /// The step that components are shares of: the measured one where it is known.
  double whole_us() const { return measured_us > 0 ? measured_us : step_us; }
  /// That step minus the sum of the components; negative when the components are longer.
  double unaccounted_us() const { return whole_us() - parts_us(); }
  bool operator==(const StepAccount&) const = default;
};

/// One configuration with all its runs. When no run succeeded, `status` is not ok and n is 0.
struct StudyCell {
  CellKey key;
  Status status;
  Origin origin = Origin::measured;
  int64_t steps = 0;   // timed steps of one run
  int64_t warmup = 0;  // untimed steps before them
  SampleSummary step_time_us;
  std::optional<double> memory_peak_bytes;  // per device, largest over runs
  std::optional<double> memory_modelled_bytes;
  std::optional<double> tokens_per_s;         // at the estimate of the step time; of models of tokens
  std::optional<double> model_flops_per_s;    // at the estimate of the step time
  std::optional<double> model_flop_share;     // of the devices' peak in this math mode (MFU), 0 to 1; of known GPUs
  std::optional<double> utilisation_percent;  // mean over runs
  std::optional<double> loss_first;
  std::optional<double> loss_last;
  std::optional<double> bubble_measured, bubble_simulated;  // idle share of pipeline ranks, 0 to 1, medians over runs
  std::optional<double> bubble_simulated_messages;          // with messages of `pp_message_us`; else they take no time
  std::optional<double> pp_message_us;                      // of one message between neighbouring stages
  std::vector<double> share_rows;                           // of the data-parallel ranks, with unequal shares
  std::optional<double> speed_bound;  // samples/s: the sum of the devices' own speeds, where shares follow them
  std::optional<StepAccount> account;
  int64_t num_failed = 0;  // runs without a result; StudySummary::notes has the reasons
  int64_t num_waived = 0;

  /// Samples/s over all devices: global batch / step time. Of a cell with a result.
  Estimate throughput() const;
};

// `unclear` is first, so that a default-initialised value makes no claim.
enum class Verdict { unclear, faster, slower, same };
enum class Recommendation { unclear, multi_device, marginal, single_device };
enum class SerialTrend { unclear, constant, grows, falls };

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

/// "multi", "marginal", "single", "unclear".
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

/// Where several devices begin to pay: recommended at `from` and at every larger size, measured or modelled.
struct SizeCrossover {
  int64_t from = 0;
  int64_t below = 0;    // largest size at which they are not recommended; 0: recommended at every size
  int64_t largest = 0;  // largest of the sizes

  auto operator<=>(const SizeCrossover&) const = default;
};

/// What a test's interval and p values are computed from. runs: the runs of one process, which do not show the variance
/// between processes. processes: the medians of processes. calibrated: a calibrated process spread. none: there is no
/// interval and no p value, and the verdict is UNCLEAR.
enum class TestLevel { runs, processes, calibrated, none };

/// "runs", "processes", "calibrated", "none".
constexpr std::string_view to_string(TestLevel level) {
  switch (level) {
    case TestLevel::runs:
      return "runs";
    case TestLevel::processes:
      return "processes";
    case TestLevel::calibrated:
      return "calibrated";
    case TestLevel::none:
      break;
  }
  return "none";
}

/// "constant", "grows", "falls", "unclear".
constexpr std::string_view to_string(SerialTrend trend) {
  switch (trend) {
    case SerialTrend::constant:
      return "constant";
    case SerialTrend::grows:
      return "grows";
    case SerialTrend::falls:
      return "falls";
    case SerialTrend::unclear:
      break;
  }
  return "unclear";
}

/// Ratio of two sample sets with its tests. `ratio` > 1 means that the first is faster.
struct PairTest {
  double ratio = 1;
  std::optional<Interval> ci;  // absent when either side has fewer than five runs
  int64_t n_first = 0;         // runs
  int64_t n_second = 0;
  int64_t processes_first = 1;
  int64_t processes_second = 1;
  TestLevel level = TestLevel::runs;
  double p_welch = 1;                          // two-tailed, of runs or processes according to `level`
  std::optional<double> p_mann_whitney = 1.0;  // two-tailed; absent when only mean and sd are known
  double p_holm = 1;                           // p_welch with Holm's adjustment over all tests of the grid
  double p_same = 1;                           // two one-sided tests (TOST) of a ratio within 1 +- 0.01
  Verdict verdict = Verdict::unclear;
  /// Estimated further runs per side that would settle an UNCLEAR; processes unless `level` is `runs`; 0: settled.
  int64_t more_runs = 0;

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
  int64_t more_runs = 0;  // as test.more_runs, for the recommendation
};

/// Geometric mean over the batches of the speedups of one configuration. Whether several devices pay is answered batch
/// by batch, not by an average.
struct AverageSpeedup {
  std::string model;
  std::string scaling;
  std::string math;
  std::string strategy;
  std::string launch;
  std::string configuration;  // all that distinguishes plans: "ddp, graph, 2 micro-batches"
  int64_t devices = 0;
  int64_t num_batches = 0;
  double geometric_mean = 1;
  std::optional<Interval> ci;  // from the intervals of the speedups
};

/// Upper bound of the speedup of two devices over one at a global batch B: T1(B) / T1(B/2), where each device computes
/// half of the batch and communication takes no time. Modelled from the fastest measured configuration of each batch.
/// Valid for data parallelism in which every device updates all parameters.
struct SpeedupBound {
  CellKey whole, half;
  double ratio = 1;
  std::optional<Interval> ci;
  bool cannot_pay = false;  // the interval's upper end is below the threshold for recommending several devices
};

/// One batch size of a study on one device, in the requested configuration.
struct OneDeviceRow {
  CellKey cell;
  std::optional<double> launch_share;  // launch gaps / accounted step; absent without an account
  std::optional<SpeedupBound> two_devices;
};

/// Another launch or math mode of the same batch. The first side of the test is `to`: a ratio above 1 is its speedup.
struct OneDeviceAlternative {
  CellKey from, to;
  PairTest test;
};

/// Summary of a study without multi-device cells: results of the device and its alternatives.
struct OneDeviceSummary {
  std::vector<OneDeviceRow> rows;
  std::vector<OneDeviceAlternative> alternatives;
  CellKey fastest;           // most samples/s of all cells
  CellKey fastest_as_asked;  // most samples/s of the cells in the requested configuration
};

/// Karp-Flatt metric of one device count: the serial fraction for which Amdahl's law gives the measured speedup,
/// e = (1/S - 1/n) / (1 - 1/n). Above 1 when n devices are slower than one.
struct SerialPoint {
  int64_t devices = 0;
  double speedup = 1;
  double fraction = 0;
  std::optional<Interval> ci;  // from the interval of the speedup

  bool operator==(const SerialPoint&) const = default;
};

/// Strong scaling of one batch measured with three or more device counts, fitted with Amdahl's law 1/S = f + (1 - f)/n.
struct SerialFraction {
  CellKey cell;  // of the largest device count
  std::vector<SerialPoint> points;
  double fitted = 0;                  // f by least squares over the device counts
  std::optional<Interval> fitted_ci;  // from the intervals of the step times
  double growth = 0;                  // e of the largest device count minus e of the smallest
  std::optional<Interval> growth_ci;
  SerialTrend trend = SerialTrend::unclear;
};

struct StudySummary {
  std::string device_kind;  // "cpu-virtual" or "cuda"
  std::vector<StudyCell> cells;
  std::vector<StudyComparison> comparisons;
  std::vector<AverageSpeedup> averages;
  std::vector<SerialFraction> serial_fractions;
  std::optional<OneDeviceSummary> one_device;
  std::string conclusion;
  std::vector<Provenance> provenance;  // distinct ones, start times ignored
  std::vector<std::string> warnings;   // why the times may not be those of the devices: a busy host, a throttled job
  std::vector<std::string> notes;      // failed and waived runs, missing baselines, truncated files
};

struct SamplingOptions {
  int samples = 30;                // maximum number of samples, each of several calls
  double least_sample_us = 1000;   // minimum duration of a sample, us; calls are repeated until it is reached
  int64_t least_warmup_calls = 3;  // minimum number of warm-up calls
  double rel_ci = 0;  // stops once the 95 % interval of the mean is this narrow, relative to the mean; 0: never
};

/// Times of one function.
struct Samples {
  std::vector<double> us;  // time per call, one value per sample
  int64_t calls_per_sample = 1;
  int64_t warmup_calls = 0;
  bool settled = false;   // false: times still changed after the maximum warm-up of 3 s
  SampleSummary summary;  // of `us`
};

/// Two functions whose samples alternate, so that drift of the machine affects both equally.
struct Comparison {
  Samples first, second;
  PairTest test;  // ratio: mean time of the second over mean time of the first
};

/// Calls `work` until its times are stable, then takes samples. Throws Error{usage} for an empty function and options
/// out of range, and whatever `work` throws.
AMDAHL_API Samples sample_function(const std::function<void()>& work, const SamplingOptions& options = {});
/// Samples both functions alternately and compares them. Errors as sample_function.
AMDAHL_API Comparison compare_functions(const std::function<void()>& first, const std::function<void()>& second,
                                        const SamplingOptions& options = {});

}  // namespace amdahl
