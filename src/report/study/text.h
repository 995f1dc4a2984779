// The terminal output of a study: one aligned table, the verdict of every batch, the conclusion.
#pragma once

#include <string>

#include "amdahl/summary.h"

namespace amdahl {

/// Plain text without colour. With `ascii`, amdahl's own text is ASCII only; user-given names are unchanged.
std::string study_text(const StudySummary& summary, bool ascii);

}  // namespace amdahl
