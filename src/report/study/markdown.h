// The Markdown report of a study. Pure text from a summary: rebuilding it from the same files gives the same bytes.
#pragma once

#include <string>

#include "amdahl/summary.h"

namespace amdahl {

std::string study_markdown(const StudySummary& summary);

}  // namespace amdahl
