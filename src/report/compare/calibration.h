// The text output of `calibrate`: the spread between processes.
#pragma once

#include <string>
#include <vector>

#include "amdahl/machine.h"

namespace amdahl {

/// One row per cell, and the file that the spreads were written to.
std::string calibration_text(const std::vector<ProcessSpread>& spreads, const std::string& machine_file);

}  // namespace amdahl
