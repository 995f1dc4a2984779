// Validity checks shared by all readers of records.
#pragma once

#include <string>

#include "amdahl/error.h"
#include "amdahl/record.h"

namespace amdahl {

/// Makes an Error{store_corrupt} with the file and line of the record; `problem` is the predicate of the message.
Error damaged_record(const Record& record, const std::string& problem);
/// Throws damaged_record when `sample` of `series` is zero, negative or not finite, and so neither a time nor a rate.
void require_speed(const Record& record, const std::string& series, double sample);

/// Distinct device names in a provenance: its facts "device", "devices", "device.0" and "device.0.name"; names of
/// virtual devices without their index.
std::string device_names_of(const Provenance& provenance);

}  // namespace amdahl
