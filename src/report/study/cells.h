// A study's records pooled into cells, and the cells compared with each other.
#pragma once

#include <map>
#include <vector>

#include "amdahl/record.h"
#include "amdahl/summary.h"
#include "report/study/summary.h"
#include "stats/processes.h"

namespace amdahl {

// All runs of one cell; samples of a series are parallel to `ok`.
struct CellRuns {
  std::vector<const Record*> ok;
  std::vector<const Record*> others;  // failed or waived
  std::vector<double> step_time_us;
  std::vector<double> throughput;
  ProcessSamples step_time_by_process, throughput_by_process;
};

using StudyCells = std::map<CellKey, CellRuns>;

/// Two cells of one study, measured in turns.
struct CellPair {
  const CellRuns* first;
  const CellRuns* second;
  bool by_throughput = false;  // where their batches differ; else by step time
};
/// Tests of the runs, or of the processes where both cells have several. Holm's adjustment spans all of them.
std::vector<PairTest> test_cells(const std::vector<CellPair>& pairs, const BootstrapOptions& options);

/// Step times in us that count as independent: runs of one process, or the median of each of several.
std::vector<double> independent_step_times(const CellRuns& runs);

/// Every cell on several devices against the best one-device cell of its batch, and the averages over batches.
void compare_study_cells(const StudyCells& cells, const StudyOptions& options, StudySummary& summary);

}  // namespace amdahl
