// A traced step on a report page.
#pragma once

#include <optional>
#include <string>

#include "amdahl/record.h"
#include "report/page/page.h"

namespace amdahl {

/// `name`: of the run, for pages about several; `anchor`: of the section, and id of its chart. nullopt without events.
std::optional<PageSection> trace_section(const StepTrace& trace, const std::string& name, const std::string& anchor);

}  // namespace amdahl
