// One traced step: what each stream of each rank did when.
#pragma once

#include <cstdint>
#include <optional>

#include "amdahl/trace.h"
#include "chart/chart.h"

namespace amdahl {

/// How far communication ran beside work of its own rank, in us, mean over ranks.
struct StepOverlap {
  double step_us = 0;     // longest rank
  double hidden_us = 0;   // communication while any other stream of the rank computed
  double exposed_us = 0;  // and while none did, waiting for slower ranks included
  int64_t bytes = 0;      // payload of a rank, the largest
  int64_t num_buckets = 0;
};
StepOverlap step_overlap(const StepTrace& trace, int64_t step);

/// The last traced step. Nothing without events of one.
std::optional<Chart> timeline_chart(const StepTrace& trace);

}  // namespace amdahl
