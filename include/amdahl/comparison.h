// Result of `compare`: a verdict per cell, and the cells without a counterpart. Plain data.
//
// Example:
//   amdahl::CompareConfig config;  // of amdahl/amdahl.h
//   config.runs = {"runs/baseline", "runs/candidate"};
//   for (const amdahl::CellComparison& cell : amdahl::run_compare(config).comparison.against[0].cells)
//     std::printf("%.3f %s\n", cell.test.ratio, std::string(to_string(cell.test.verdict)).c_str());
#pragma once

#include <map>
#include <string>
#include <vector>

#include "amdahl/summary.h"

namespace amdahl {

/// One cell that both runs measured. `test.ratio` > 1 means that A is faster than B, for times and rates alike.
struct CellComparison {
  std::string kind;
  std::map<std::string, AxisValue> axes;  // shared by both sides, without "run"
  SampleSummary a;                        // in `unit`
  SampleSummary b;
  PairTest test;
  std::string series;  // name of the compared series
  std::string unit;
  double drift = 0;                  // variance between studies / variance between processes, used by the test
  Origin origin = Origin::measured;  // emulated when either side is
};

/// Compares the baseline's cells whose `axis` is `a` with the candidate's cells whose `axis` is `b`.
struct AxisPair {
  std::string axis, a, b;
};

/// A is the baseline, B the candidate.
struct RunComparison {
  std::string name_a = "A";
  std::string name_b = "B";
  std::string device_kind;
  std::string series;  // of the first cell, for example "step_time"
  std::string unit;
  std::vector<CellComparison> cells;
  std::vector<std::string> only_a;  // cells with a result on one side only, as text
  std::vector<std::string> only_b;
  std::vector<std::string> notes;  // failed runs, differences that the caller allowed
  std::vector<AxisPair> proposed;  // pairs that would give unmatched cells a counterpart
};

/// One baseline against every other run. Holm's adjustment spans the cells of all comparisons.
struct RunsComparison {
  std::vector<RunComparison> against;  // at least one; name_a is the same in all
};

}  // namespace amdahl
