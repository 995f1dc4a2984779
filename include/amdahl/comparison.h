// What `compare` says about runs: cell by cell, with a verdict each, and what could not be matched.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "amdahl/summary.h"

namespace amdahl {

/// One cell that both runs measured. `test.ratio` > 1 means that A is faster than B, whatever the series' direction.
struct CellComparison {
  std::string kind;
  std::map<std::string, AxisValue> axes;  // shared by both sides, without "run"
  SampleSummary a;                        // in `unit`
  SampleSummary b;
  PairTest test;
  std::string series;  // what was compared
  std::string unit;
  double drift = 0;                  // variance between studies over that between processes of one, taken into the test
  Origin origin = Origin::measured;  // emulated where either side is
};

/// Cells with `a` in this axis of the baseline are compared with those that have `b` in it of the candidate.
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
  std::vector<AxisPair> proposed;  // pairing these would give cells without a counterpart one
};

/// One baseline and each of the others against it. Holm's adjustment spans all cells of all of them.
struct RunsComparison {
  std::vector<RunComparison> against;  // at least one; name_a is the same in all
};

}  // namespace amdahl
