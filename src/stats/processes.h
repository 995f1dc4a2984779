// Samples of two levels: runs within processes. Runs of one process share its memory layout, its choice of algorithms
// and the moment it was started; only fresh processes say how far the next measurement may lie from this one. So the
// process is what is replicated: each counts once, by the logarithm of the median of its runs, which a few outliers do
// not move. For equal numbers of runs this is the test of the nested analysis of variance (Snedecor and Cochran,
// Statistical Methods, chapter 13), on medians.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "stats/compare.h"

namespace amdahl {

/// Samples of one cell by the number of the process that measured them.
using ProcessSamples = std::map<int64_t, std::vector<double>>;

/// How far medians of fresh processes lie apart, from a calibration of this machine.
struct CalibratedSpread {
  double relative_sd = 0;  // of the logarithm of a process's median
  int64_t processes = 0;   // it was taken from
  double runs = 0;         // of each of them
};

/// Variance of what the processes of one study have in common and those of the next study do not, over the variance of
/// processes within a study. A host's processors are faster or slower for minutes: neighbours, clocks, caches.
/// Measured on CPU virtual devices in three sets of 15 studies of 5 processes: 0.38, 0.51 and 0.57 (results/method).
/// More than these, so that false verdicts stay below 5 % in each of the sets. GPUs: 0, since 20 studies of one GPU
/// differed by less than their processes did.
inline constexpr double kHostDrift = 0.75;

struct ProcessPair {
  const ProcessSamples& first;
  const ProcessSamples& second;
  Direction direction = Direction::smaller_is_faster;
  bool paired = false;                       // a process measured both sides, in turns
  std::optional<CalibratedSpread> spread{};  // takes the place of a measured one where a side has a single process
  double drift = 0;                          // kHostDrift where the sides were measured one after the other on a host
};

/// The pair's ratio (of geometric means of the processes' medians), its 95 % t interval, and the tests on the
/// processes' logarithms. Verdict and p_holm are those of a grid of one.
///   both sides have two processes or more   Welch's test; paired: Student's on the differences within processes
///   a side has one, and there is a spread   as if each process were drawn with that spread; runs fewer than the
///                                           calibration's add what they scatter within a process
///   neither                                 a ratio, no interval, UNCLEAR: PairTest::level is `none`
PairTest test_processes(const ProcessPair& pair);

/// Moments of a side whose mean is of one study: sd such that sd / sqrt(n) has the drift between studies in it.
Moments with_drift(Moments moments, double drift);

/// What `judge_together` needs to know of a side: processes, geometric mean of their medians, and their spread around
/// it.
Moments process_moments(const ProcessSamples& samples);

/// The median of each process's runs.
std::vector<double> process_medians(const ProcessSamples& samples);

/// Summary over all runs; with several processes, the interval of the mean is Student's of the processes' means, and
/// that of the median of their medians.
SampleSummary summarise_processes(const ProcessSamples& samples);

/// Spread of the processes' medians; nothing with fewer than two.
std::optional<CalibratedSpread> spread_of(const ProcessSamples& samples);

/// As test_processes of sides that are known by their moments of processes alone; each has two or more.
PairTest test_process_moments(const Moments& first, const Moments& second, Direction direction);

}  // namespace amdahl
