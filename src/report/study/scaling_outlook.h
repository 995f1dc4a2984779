// Predicted scaling as text.
#pragma once

#include <string>

#include "amdahl/comparison.h"

namespace amdahl {

/// One row per batch and device count, then the source of each term. Without colour.
std::string outlook_text(const ScalingOutlook& outlook);

}  // namespace amdahl
