// Timeline of one traced step: the activity of each stream of each rank.
#pragma once

#include <cstdint>
#include <optional>

#include "amdahl/record.h"
#include "chart/chart.h"

namespace amdahl {

/// Overlap of communication with compute of the same rank, in us, mean over ranks.
struct StepOverlap {
  double step_us = 0;     // longest over ranks
  double hidden_us = 0;   // communication while another stream of the rank computed
  double exposed_us = 0;  // communication while no other stream computed, including waits for slower ranks
  int64_t bytes = 0;      // payload per rank, the maximum
  int64_t num_buckets = 0;
};
StepOverlap step_overlap(const StepTrace& trace, int64_t step);

/// Draws the last traced step. nullopt when it has no events.
std::optional<Chart> timeline_chart(const StepTrace& trace);

}  // namespace amdahl
