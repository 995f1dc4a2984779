// Samples on two levels: runs within processes. Runs of one process share its memory layout, its choice of algorithms
// and its start time; only fresh processes show how far the next measurement may differ from this one. The unit of
// replication is therefore the process: each counts once, by the logarithm of the median of its runs, which is robust
// to a few outliers. For equal numbers of runs this is the test of the nested analysis of variance (Snedecor and
// Cochran, Statistical Methods, chapter 13), on medians.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "stats/compare.h"

namespace amdahl {

/// Samples of one cell, by the number of the measuring process.
using ProcessSamples = std::map<int64_t, std::vector<double>>;

/// Spread of the medians of fresh processes, from a calibration of this machine.
struct CalibratedSpread {
  double relative_sd = 0;  // of the logarithm of a process's median
  int64_t processes = 0;   // number of processes in the calibration
  double runs = 0;         // per process
};

/// Variance between studies (of what the processes of one study have in common) over the variance of processes within a
/// study. A host's processors are faster or slower for minutes: neighbours, clocks, caches. Measured on CPU virtual
/// devices in three sets of 15 studies of 5 processes: 0.38, 0.51 and 0.57 (results/method). The value is above these,
/// so that false verdicts stay below 5 % in each of the sets. For GPUs it is 0, because 20 studies of one GPU differed
/// by less than their processes did.
inline constexpr double kHostDrift = 0.75;

struct ProcessPair {
  const ProcessSamples& first;
  const ProcessSamples& second;
  Direction direction = Direction::smaller_is_faster;
  bool paired = false;                       // each process measured both sides, alternating
  std::optional<CalibratedSpread> spread{};  // replaces the measured spread where a side has a single process
  double drift = 0;                          // kHostDrift where the sides were measured one after the other on a host
};

/// The pair's ratio (of geometric means of the processes' medians), its 95 % t interval, and the tests on the
/// processes' logarithms. Verdict and p_holm are those of a grid with one pair.
///   both sides have two processes or more   Welch's test; paired: Student's on the differences within processes
///   a side has one, and there is a spread   as if each process were drawn with that spread; runs fewer than the
///                                           calibration's add what they scatter within a process
///   neither                                 a ratio, no interval, UNCLEAR: PairTest::level is `none`
PairTest test_processes(const ProcessPair& pair);

/// Moments of a side measured in one study, with sd enlarged so that sd / sqrt(n) includes the drift between studies.
Moments with_drift(Moments moments, double drift);

/// The moments of a side for `judge_together`: number of processes, geometric mean of their medians, and their spread
/// around it.
Moments process_moments(const ProcessSamples& samples);

/// The median of each process's runs.
std::vector<double> process_medians(const ProcessSamples& samples);

/// Summary over all runs. With several processes, the intervals of the mean and of the median are Student t intervals
/// of the processes' means and of their medians.
SampleSummary summarise_processes(const ProcessSamples& samples);

/// Spread of the processes' medians; nullopt with fewer than two.
std::optional<CalibratedSpread> spread_of(const ProcessSamples& samples);

/// Like test_processes, for sides of which only the moments of their processes are known; each has two processes or
/// more.
PairTest test_process_moments(const Moments& first, const Moments& second, Direction direction);

}  // namespace amdahl
