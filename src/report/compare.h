// Runs against each other, cell by cell.
#pragma once

#include <string>
#include <vector>

#include "amdahl/comparison.h"
#include "amdahl/record.h"
#include "stats/bootstrap.h"

namespace amdahl {

struct CompareOptions {
  std::string name_a = "A";          // the baseline
  std::string name_b = "B";          // the candidate
  std::string tool_a{}, tool_b{};    // what measured them, named where the two are unlike
  std::string series = "step_time";  // compared quantity; a unit of "us" means smaller is faster, else larger is
  std::vector<std::string> differing_axes{};  // axes that may differ between the two, for example "launch"
  bool allow_unlike = false;  // other hosts, device names, math or launch modes: noted instead of refused
  bool may_be_empty = false;  // no cell in common is an answer, not an error
  BootstrapOptions bootstrap{};
};

/// Matches the cells of both sets by kind and all axes but "run" and `differing_axes`, and tests each pair,
/// Holm-adjusted over all of them. Throws Error{usage} when provenance differs (device kind always; host, device names,
/// math and launch unless allowed), when nothing matches, or when two cells of one side match the same cell of the
/// other. Records of a summary.json are tested by mean, sd and number.
RunComparison compare_runs(const std::vector<Record>& a, const std::vector<Record>& b,
                           const CompareOptions& options = {});

/// Holm's adjustment anew over all cells of all comparisons, with the verdicts that follow.
void judge_together(RunsComparison& comparison);

/// Cells in which the candidate B is slower than the baseline A by more than `percent`, judged by the near end of the
/// interval: the verdict is that A is faster, and even the interval's low end exceeds 1 + percent / 100.
std::vector<const CellComparison*> regressions(const RunComparison& comparison, double percent);
/// Whether there are any: what --fail-on-regression asks.
bool regression(const RunComparison& comparison, double percent);
bool regression(const RunsComparison& comparison, double percent);

}  // namespace amdahl
