// The terminal's view of a study: one aligned table, the verdict of every batch in words, the conclusion.
#pragma once

#include <string>

#include "amdahl/summary.h"

namespace amdahl {

/// Plain text without colour. With `ascii`, only ASCII of our own; names of the user stay as they are.
std::string study_text(const StudySummary& summary, bool ascii);

}  // namespace amdahl
