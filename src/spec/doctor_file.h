// Reads doctor.json of a run folder.
#pragma once

#include <string_view>

#include "amdahl/fabric.h"

namespace amdahl {

/// The findings, checked, unseen and failed fields of a document that doctor_to_json wrote. The machine and the records
/// are in separate files of the same folder. Throws Error{store_corrupt} and Error{version_refused}.
DoctorOutcome doctor_from_json(std::string_view text, std::string_view origin);

}  // namespace amdahl
