// Calibrations within machine files.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "amdahl/planner.h"

namespace amdahl {

/// The calibrations of a machine file; empty without any. Error{store_corrupt} names a damaged field.
std::vector<Calibration> calibrations_from_json(std::string_view machine_file, std::string_view origin);

/// The text of a machine file with these calibrations; those of the same device kind, device, math and software are
/// replaced.
std::string with_calibrations(std::string_view machine_file, const std::vector<Calibration>& calibrations);

}  // namespace amdahl
