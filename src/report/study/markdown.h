// The Markdown report of a study. Deterministic: the same summary gives the same bytes.
#pragma once

#include <string>

#include "amdahl/summary.h"

namespace amdahl {

std::string study_markdown(const StudySummary& summary);

}  // namespace amdahl
