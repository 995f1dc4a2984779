// The provenance of every record that a verb measures.
#pragma once

#include <ctime>
#include <string>
#include <vector>

#include "amdahl/machine.h"
#include "amdahl/record.h"
#include "measure/fleet.h"

namespace amdahl {

Provenance make_provenance(const EngineConfig& config, const std::string& device_kind,
                           const std::vector<DeviceSpec>& devices);
Provenance make_provenance(const EngineConfig& config, const Fleet& fleet);
/// A time as UTC text: "2026-01-31T12:00:00Z".
std::string utc_text(std::time_t time);
/// The current time as UTC text.
std::string utc_now();

}  // namespace amdahl
