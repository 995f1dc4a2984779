// A sweep over collectives as a drawing.
#pragma once

#include <string>
#include <vector>

#include "amdahl/record.h"

namespace amdahl {

/// SVG of bus bandwidth (GB/s) over size (bytes), log-log: one line per collective, transport, placement and every
/// other field in which the records differ; the upper bound of the bus bandwidth is dashed if records have a series
/// "peak". Failed records with a bandwidth are crosses; those without are counted below the drawing. Empty when no
/// record has a bandwidth.
std::string collectives_curves(const std::vector<Record>& records);

}  // namespace amdahl
