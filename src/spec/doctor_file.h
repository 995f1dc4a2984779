// doctor.json of a run folder.
#pragma once

#include <string_view>

#include "amdahl/fabric.h"

namespace amdahl {

/// Findings, checked, unseen and failed of what doctor_to_json wrote; machine and records lie in files of their own
/// beside it. Throws Error{store_corrupt} and Error{version_refused}.
DoctorOutcome doctor_from_json(std::string_view text, std::string_view origin);

}  // namespace amdahl
