// Where a study's numbers come from and how they were made, in words.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "amdahl/summary.h"

namespace amdahl {

/// Tool, command line, host, versions: what they are called and all their values, "; " between them.
std::vector<std::pair<std::string, std::string>> study_provenance(const StudySummary& summary);

/// How it was measured and judged, a statement each.
std::vector<std::string> study_method(const StudySummary& summary);

}  // namespace amdahl
