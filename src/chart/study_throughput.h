// Throughput against the batch, on one device and on several.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "chart/chart.h"
#include "chart/study_groups.h"

namespace amdahl {

/// One line per device count, both axes logarithmic, and a dotted rule at the batch from which several devices are
/// recommended. nullopt with fewer than two batches.
std::optional<Chart> throughput_chart(const StudySummary& summary, const StudyGroup& group);

/// The point between two adjacent measured batches from which several devices are recommended.
struct BatchCrossover {
  int64_t batch = 0;    // recommended at this batch and every larger one
  int64_t below = 0;    // largest batch at which they are not recommended
  int64_t largest = 0;  // largest measured batch

  auto operator<=>(const BatchCrossover&) const = default;
};

/// Uses the recommendations of comparisons with that device count, in any configuration. nullopt when the largest batch
/// has another recommendation, or when every batch has it (there is no crossover then).
std::optional<BatchCrossover> crossover_batch(const StudySummary& summary, const StudyGroup& group, int64_t devices);

/// "batch >= 1,024, not at 256", or at the largest measured batch "batch 8,192, the largest measured, not at 1,024".
std::string crossover_text(const BatchCrossover& crossover, std::string_view batch_name);

}  // namespace amdahl
