// Predicted scaling in words.
#pragma once

#include <string>

#include "amdahl/scaling.h"

namespace amdahl {

/// A row per batch and device count, then where each term comes from. Without colour.
std::string outlook_text(const ScalingOutlook& outlook);

}  // namespace amdahl
