// The text report of `amdahl doctor`.
#pragma once

#include <string>

#include "amdahl/fabric.h"

namespace amdahl {

/// Header, one line per finding with measured, expected, reason and remedy, the checks that passed, the checks that
/// were not done, and the verdict. Uses all fields of `outcome` except text and json.
std::string doctor_text(const DoctorOutcome& outcome);

}  // namespace amdahl
