#include "report/study/page.h"

#include <fmt/format.h>

#include <algorithm>

#include "chart/timeline.h"

namespace amdahl {
namespace {

std::string clock_sentence(const StepTrace& trace) {
  double uncertainty = 0;
  for (const TracedRank& rank : trace.ranks) uncertainty = std::max(uncertainty, rank.clock_uncertainty_us);
  if (uncertainty == 0) return "The times of all ranks are of one clock.";
  return fmt::format("The ranks' times are on one clock but for a shift of at most {:.1f} us of a rank as a whole.",
                     uncertainty);
}

}  // namespace

std::optional<PageSection> trace_section(const StepTrace& trace, const std::string& name, const std::string& anchor) {
  std::optional<Chart> chart = timeline_chart(trace);
  if (!chart) return std::nullopt;
  chart->id = anchor;
  PageSection section;
  section.anchor = anchor + "-section";
  section.title = fmt::format("One step on a timeline: {}, batch {} on {} device{}", trace.strategy, trace.global_batch,
                              trace.devices, trace.devices == 1 ? "" : "s");
  section.paragraphs = {
      fmt::format("One of the steps {} to {} that were traced in {} ({}, launch {}); n = 1, to show the order of "
                  "operations. {}",
                  trace.first_step, trace.end_step - 1, name, trace.model, trace.launch, clock_sentence(trace)),
      trace.how};
  section.charts.push_back(std::move(*chart));
  return section;
}

}  // namespace amdahl
