// Provenance and method of a study, as text.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "amdahl/summary.h"

namespace amdahl {

/// Tool, command line, host, versions: names with all their values, separated by "; ".
std::vector<std::pair<std::string, std::string>> study_provenance(const StudySummary& summary);

/// How the study was measured and judged, one statement per entry.
std::vector<std::string> study_method(const StudySummary& summary);

}  // namespace amdahl
