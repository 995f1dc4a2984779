// The provenance of everything a verb measures.
#pragma once

#include <ctime>
#include <string>
#include <vector>

#include "amdahl/amdahl.h"
#include "measure/fleet.h"

namespace amdahl {

Provenance make_provenance(const EngineConfig& config, const std::string& device_kind,
                           const std::vector<DeviceSpec>& devices);
Provenance make_provenance(const EngineConfig& config, const Fleet& fleet);
/// UTC, "2026-01-31T12:00:00Z".
std::string utc_text(std::time_t time);
/// Now.
std::string utc_now();

}  // namespace amdahl
