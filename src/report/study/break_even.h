// Where several devices take the time of one: by the same interpolation as `amdahl cost`.
#pragma once

#include <string>
#include <vector>

#include "amdahl/cost.h"
#include "amdahl/summary.h"
#include "chart/study_groups.h"

namespace amdahl {

/// One for each number of devices and configuration of the group that was measured at two batches or more: speedup 1
/// over the global batch.
std::vector<BreakEven> study_break_evens(const StudySummary& summary, const StudyGroup& group);

/// BreakEven::configuration of a cell's curve: "ddp, graph".
std::string break_even_configuration(const CellKey& key);

/// "2 GPUs against one, ddp, graph: break-even (speedup 1) over the global batch: from about ...; measured from ... .",
/// a line each; empty where there is none.
std::vector<std::string> break_even_lines(const StudySummary& summary, const StudyGroup& group);

}  // namespace amdahl
