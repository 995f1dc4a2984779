// The batch at which several devices take the same time as one, by the same interpolation as `amdahl report`.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "amdahl/report.h"
#include "amdahl/summary.h"
#include "chart/study_groups.h"

namespace amdahl {

/// Of one configuration of several devices.
struct StudyBreakEven {
  int64_t devices = 2;
  std::string configuration;  // "ddp, graph"
  BreakEven at_batch;
};

/// One per device count and configuration of the group that was measured at two batches or more: where the speedup over
/// the global batch is 1.
std::vector<StudyBreakEven> study_break_evens(const StudySummary& summary, const StudyGroup& group);

/// For cells on several devices at whose batch the time of one device jumps from the next smaller one: both times, with
/// their batches.
std::map<CellKey, std::string> jump_notes(const StudySummary& summary, const StudyGroup& group);

/// The value of StudyBreakEven::configuration for a cell: "ddp, graph".
std::string break_even_configuration(const CellKey& key);

/// "2 GPUs against one, ddp, graph: break-even (speedup 1) over the global batch: from about ...; measured from ... .",
/// one line each; empty if there is none.
std::vector<std::string> break_even_lines(const StudySummary& summary, const StudyGroup& group);

}  // namespace amdahl
