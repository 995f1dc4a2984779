// A sweep over collectives as a picture.
#pragma once

#include <string>
#include <vector>

#include "amdahl/record.h"

namespace amdahl {

/// SVG of bus bandwidth (GB/s) over size (bytes), log-log: a line for each collective, transport and placement, and
/// for whatever else the records differ in; the rate that no bus bandwidth can exceed dashed, where records have a
/// series "peak". Failed records that still have a bandwidth are crosses; those without one are counted below the
/// picture. Empty when none has one.
std::string collectives_curves(const std::vector<Record>& records);

}  // namespace amdahl
