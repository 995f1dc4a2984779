// The charts of a study.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "chart/chart.h"
#include "chart/study_groups.h"

namespace amdahl {

/// One line per device count, both axes logarithmic, and a dotted rule at the batch from which several devices are
/// recommended. nullopt with fewer than two batches.
std::optional<Chart> throughput_chart(const StudySummary& summary, const StudyGroup& group);

/// Uses the recommendations of comparisons with that device count, in any configuration. nullopt when the largest batch
/// has another recommendation, or when every batch has it (there is no crossover then).
std::optional<SizeCrossover> crossover_batch(const StudySummary& summary, const StudyGroup& group, int64_t devices);

/// "batch >= 1,024, not at 256", or at the largest measured batch "batch 8,192, the largest measured, not at 1,024".
std::string crossover_text(const SizeCrossover& crossover, std::string_view batch_name);

/// One chart per batch that was measured under several plans: bars of their step times, the fastest on top.
std::vector<Chart> plan_charts(const StudySummary& summary, const StudyGroup& group);
/// One line per batch with intervals, and the ideal line. nullopt without a comparison in the group, and
/// for several plans of one device count, which plan_charts() shows.
std::optional<Chart> speedup_chart(const StudySummary& summary, const StudyGroup& group);
/// Like speedup_chart, with speedup divided by the number of devices: 100 % means ideal scaling.
std::optional<Chart> efficiency_chart(const StudySummary& summary, const StudyGroup& group);

/// One heat map per device count, scaling mode and math mode with at least two models. When there are several
/// configurations, the fastest is shown.
std::vector<Chart> crossover_maps(const StudySummary& summary);

/// One panel per batch with its own time axis, and in it one bar per configuration, whose parts add up to the step.
/// nullopt when no cell of the group has an account.
std::optional<Chart> account_chart(const StudySummary& summary, const StudyGroup& group);

/// The step times of one cell, one value per run, with outlier flags.
struct CellSamples {
  CellKey key;
  Origin origin = Origin::measured;
  double median_us = 0;
  std::vector<double> step_time_us;
  std::vector<bool> outlier;  // parallel to step_time_us
};

/// One row per cell: the step time of each run relative to the cell's median, outliers as crosses. nullopt without
/// samples.
std::optional<Chart> samples_chart(const StudySummary& summary, const StudyGroup& group,
                                   const std::vector<CellSamples>& cells);

}  // namespace amdahl
