// Pools the records of a study into cells, and compares the cells.
#pragma once

#include <map>
#include <vector>

#include "amdahl/record.h"
#include "amdahl/summary.h"
#include "report/study/summary.h"
#include "stats/processes.h"

namespace amdahl {

// All runs of one cell; `step_time_us` is parallel to `ok`.
struct CellRuns {
  std::vector<const Record*> ok;
  std::vector<const Record*> others;  // failed or waived
  std::vector<double> step_time_us;
  ProcessSamples step_time_by_process;
};

using StudyCells = std::map<CellKey, CellRuns>;

/// Two cells of one study, measured alternately.
struct CellPair {
  const CellRuns* first;
  const CellRuns* second;
  double work = 1;  // samples of a step of the first over those of the second
};
/// Tests the step times for equal work of the runs, or of the processes if both cells have several. Holm's adjustment
/// covers all pairs.
std::vector<PairTest> test_cells(const std::vector<CellPair>& pairs);

/// Compares every multi-device cell with the best one-device cell of its batch, and computes the averages over batches.
void compare_study_cells(const StudyCells& cells, StudySummary& summary);

}  // namespace amdahl
