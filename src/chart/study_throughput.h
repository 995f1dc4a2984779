// Throughput against the batch, on one device and on several.
#pragma once

#include <optional>

#include "chart/chart.h"
#include "chart/study_groups.h"

namespace amdahl {

/// A line a number of devices, both axes logarithmic, and a dotted line at the batch from which on several pay. Nothing
/// with fewer than two batches.
std::optional<Chart> throughput_chart(const StudySummary& summary, const StudyGroup& group);

/// The batch from which on every comparison with that many devices says that they pay; nothing when some larger batch
/// does not, or when all do from the smallest on (there is no crossing then).
std::optional<int64_t> crossover_batch(const StudySummary& summary, const StudyGroup& group, int64_t devices);

}  // namespace amdahl
