// Pools the records of a study into cells, and compares the cells.
#pragma once

#include <map>
#include <vector>

#include "amdahl/record.h"
#include "amdahl/summary.h"
#include "report/study/summary.h"
#include "stats/processes.h"

namespace amdahl {

// All runs of one cell; the sample vectors are parallel to `ok`.
struct CellRuns {
  std::vector<const Record*> ok;
  std::vector<const Record*> others;  // failed or waived
  std::vector<double> step_time_us;
  std::vector<double> throughput;
  ProcessSamples step_time_by_process, throughput_by_process;
};

using StudyCells = std::map<CellKey, CellRuns>;

/// Two cells of one study, measured alternately.
struct CellPair {
  const CellRuns* first;
  const CellRuns* second;
  bool by_throughput = false;  // if their batches differ; otherwise by step time
};
/// Tests the runs, or the processes if both cells have several. Holm's adjustment covers all pairs.
std::vector<PairTest> test_cells(const std::vector<CellPair>& pairs, const BootstrapOptions& options);

/// Independent step times in us: one per run of a single process, or the median of each of several processes.
std::vector<double> independent_step_times(const CellRuns& runs);

/// Compares every multi-device cell with the best one-device cell of its batch, and computes the averages over batches.
void compare_study_cells(const StudyCells& cells, const StudyOptions& options, StudySummary& summary);

}  // namespace amdahl
