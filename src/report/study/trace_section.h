// A traced step on a report page.
#pragma once

#include <optional>
#include <string>

#include "amdahl/trace.h"
#include "report/page/page.h"

namespace amdahl {

/// `name` is the run's, for pages of several; `anchor` of the section and id of its chart. Nothing without events.
std::optional<PageSection> trace_section(const StepTrace& trace, const std::string& name, const std::string& anchor);

}  // namespace amdahl
