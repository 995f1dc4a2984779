// Pages of studies.
#pragma once

#include <vector>

#include "lab/report_pages.h"

namespace amdahl {

/// Runs of one host, its devices and one build of amdahl are one study: their records are pooled, with a note. A page
/// for each such set, in the order of its first run.
std::vector<Page> study_pages(const std::vector<const PageRun*>& runs);

}  // namespace amdahl
