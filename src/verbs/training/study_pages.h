// Pages of studies.
#pragma once

#include <vector>

#include "verbs/report/report_pages.h"

namespace amdahl {

/// Runs on the same host and devices with the same build of amdahl are one study: their records are pooled, with a
/// note. One page per set, in the order of its first run.
std::vector<Page> study_pages(const std::vector<const PageRun*>& runs);

}  // namespace amdahl
