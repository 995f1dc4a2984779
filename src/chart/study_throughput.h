// Throughput against the batch, on one device and on several.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "chart/chart.h"
#include "chart/study_groups.h"

namespace amdahl {

/// A line a number of devices, both axes logarithmic, and a dotted line at the batch from which on several pay. Nothing
/// with fewer than two batches.
std::optional<Chart> throughput_chart(const StudySummary& summary, const StudyGroup& group);

/// Between two neighbouring measured batches several devices become worth it.
struct BatchCrossover {
  int64_t batch = 0;    // they are recommended at this one and at every larger one
  int64_t below = 0;    // and not at this one
  int64_t largest = 0;  // measured

  auto operator<=>(const BatchCrossover&) const = default;
};

/// By the recommendations of comparisons with that many devices, any configuration; nothing when the largest batch has
/// another one, or when all have it from the smallest on (there is no crossing then).
std::optional<BatchCrossover> crossover_batch(const StudySummary& summary, const StudyGroup& group, int64_t devices);

/// "batch >= 1,024, not at 256", or where nothing larger was measured "batch 8,192, the largest measured, not at
/// 1,024".
std::string crossover_text(const BatchCrossover& crossover, std::string_view batch_name);

}  // namespace amdahl
