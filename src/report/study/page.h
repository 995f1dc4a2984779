// The page of a study: verdict, charts with their tables, all cells, and the method.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "amdahl/comparison.h"
#include "amdahl/record.h"
#include "amdahl/summary.h"
#include "report/page/page.h"

namespace amdahl {

/// `records`: the records that `summary` was made from; used to draw samples.
Page study_page(const StudySummary& summary, const std::vector<Record>& records);

/// `name`: of the run, for pages about several; `anchor`: of the section, and id of its chart. nullopt without events.
std::optional<PageSection> trace_section(const StepTrace& trace, const std::string& name, const std::string& anchor);

/// `records` must not be empty.
Page training_page(const std::vector<Record>& records);

/// One row per batch and device count, then the source of each term. Without colour.
std::string outlook_text(const ScalingOutlook& outlook);

}  // namespace amdahl
