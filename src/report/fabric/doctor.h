// What `amdahl doctor` found, for people.
#pragma once

#include <string>

#include "amdahl/fabric.h"

namespace amdahl {

/// Header, a line a finding with measured, expected, why and remedy, what was found in order, what was not looked at,
/// verdict. Everything but text and json of `outcome` is read.
std::string doctor_text(const DoctorOutcome& outcome);

}  // namespace amdahl
