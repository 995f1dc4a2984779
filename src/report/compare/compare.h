// Runs against each other, cell by cell.
#pragma once

#include <string>
#include <vector>

#include "amdahl/comparison.h"
#include "amdahl/machine.h"
#include "amdahl/record.h"
#include "stats/bootstrap.h"

namespace amdahl {

struct CompareOptions {
  std::string name_a = "A";          // the baseline
  std::string name_b = "B";          // the candidate
  std::string tool_a{}, tool_b{};    // what measured them, named where the two are unlike
  std::string series = "step_time";  // compared quantity; a unit of "us" means smaller is faster, else larger is
  std::vector<std::string> differing_axes{};  // axes that may differ between the two, for example "launch"
  std::vector<AxisPair> pairs{};              // values of an axis that stand for the same cell
  bool allow_unlike = false;             // other hosts, device names, math or launch modes: noted instead of refused
  bool may_be_empty = false;             // no cell in common is an answer, not an error
  bool same_run = false;                 // both sides are cells of one run, measured in turns by the same processes
  std::vector<ProcessSpread> spreads{};  // of this machine, where a side has one process only
  BootstrapOptions bootstrap{};
};

/// Matches the cells of both sets by kind and all axes but "run" and `differing_axes`, and tests each pair,
/// Holm-adjusted over all of them. Cells that `pairs` pair have "ddp:zero1" in that axis. Throws Error{usage} when
/// provenance differs (device kind always; host, device names, math and launch unless allowed), when nothing matches,
/// or when two cells of one side match the same cell of the other. Records that differ in axis "process" alone are one
/// cell of several processes, and tested as stats/processes says; those of one process on both sides of the same run by
/// their runs; a summary.json by its moments.
RunComparison compare_runs(const std::vector<Record>& a, const std::vector<Record>& b,
                           const CompareOptions& options = {});

/// Holm's adjustment anew over all cells of all comparisons, with the verdicts that follow.
void judge_together(RunsComparison& comparison);

/// Cells in which the candidate B is slower than the baseline A by more than `percent`, judged by the near end of the
/// interval: the verdict is that A is faster, and even the interval's low end exceeds 1 + percent / 100.
std::vector<const CellComparison*> regressions(const RunComparison& comparison, double percent);
/// Whether there are any: what `fail_on_regression_percent` asks.
bool regression(const RunComparison& comparison, double percent);
bool regression(const RunsComparison& comparison, double percent);

}  // namespace amdahl
