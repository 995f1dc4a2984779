// Compares runs cell by cell.
#pragma once

#include <string>
#include <vector>

#include "amdahl/comparison.h"
#include "amdahl/machine.h"
#include "amdahl/record.h"
#include "report/page/page.h"
#include "stats/bootstrap.h"

namespace amdahl {

struct CompareOptions {
  std::string name_a = "A";          // the baseline
  std::string name_b = "B";          // the candidate
  std::string tool_a{}, tool_b{};    // tools that measured them, named when they differ
  std::string series = "step_time";  // compared quantity; smaller is faster if its unit is "us", otherwise larger
  std::vector<std::string> differing_axes{};  // axes that may differ between the two, for example "launch"
  std::vector<AxisPair> pairs{};              // axis values that identify the same cell
  // different hosts, device names, math or launch modes: noted instead of refused
  bool allow_unlike = false;
  bool may_be_empty = false;             // having no cell in common is not an error
  bool same_run = false;                 // both sides are cells of one run, measured alternately by the same processes
  std::vector<ProcessSpread> spreads{};  // of this machine, for sides with one process only
};

/// Matches the cells of both sets by kind and all axes except "run" and `differing_axes`, and tests each pair,
/// Holm-adjusted over all pairs. Cells matched through `pairs` have "ddp:zero1" in that axis. Throws Error{usage} when
/// the provenance differs (device kind always; host, device names, math and launch unless allowed), when nothing
/// matches, or when two cells of one side match the same cell of the other. Records that differ only in axis "process"
/// are one cell of several processes and are tested as described in stats/processes; cells measured by one process on
/// both sides of the same run are tested by their runs; cells of a summary.json by their moments.
RunComparison compare_runs(const std::vector<Record>& a, const std::vector<Record>& b,
                           const CompareOptions& options = {});

/// Repeats Holm's adjustment over all cells of all comparisons and updates the verdicts.
void judge_together(RunsComparison& comparison);

/// Cells in which the candidate B is slower than the baseline A by more than `percent`, judged by the near end of the
/// interval: the verdict is that A is faster, and even the interval's low end exceeds 1 + percent / 100.
std::vector<const CellComparison*> regressions(const RunComparison& comparison, double percent);
/// Whether there are any: what `fail_on_regression_percent` asks.
bool regression(const RunComparison& comparison, double percent);
bool regression(const RunsComparison& comparison, double percent);

/// One row per cell, and the file that the spreads were written to.
std::string calibration_text(const std::vector<ProcessSpread>& spreads, const std::string& machine_file);

/// Compares cells like compare_runs: collectives by "time", links by "bandwidth" and by "latency"; `options.series` is
/// not used. For these a record counts as one sample, its median, because the calls of one run do not predict the next
/// run: two single runs give ratios without a verdict. Sensors are compared by "time" with every sample, matched on all
/// axes: a sample is a measured block of calls (for another tool, its mean). Studies of another tool are compared by
/// "throughput". Axes that one side lacks are ignored. Throws what compare_runs throws, and Error{usage} when the two
/// have no cell in common.
RunComparison compare_fabric(const std::vector<Record>& a, const std::vector<Record>& b, const CompareOptions& options);

/// `json`: the JSON output of compare, embedded so that the page can be read back.
Page compare_page(const RunsComparison& comparison, const std::string& json);

}  // namespace amdahl
