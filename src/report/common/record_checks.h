// What every reader of records demands of them.
#pragma once

#include <string>

#include "amdahl/error.h"
#include "amdahl/record.h"

namespace amdahl {

/// Error{store_corrupt} about a record, with the file and line it was read from; `problem` is what the record does.
Error damaged_record(const Record& record, const std::string& problem);
/// Throws it when `sample` of `series` can be no time and no rate: zero, negative or not finite.
void require_speed(const Record& record, const std::string& series, double sample);

/// Distinct device names in a provenance: its facts "device", "devices", "device.0" and "device.0.name"; of virtual
/// devices without their number.
std::string device_names_of(const Provenance& provenance);

}  // namespace amdahl
