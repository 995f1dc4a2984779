// The provenance of everything a verb measures.
#pragma once

#include "amdahl/amdahl.h"
#include "measure/fleet.h"

namespace amdahl {

Provenance make_provenance(const EngineConfig& config, const Fleet& fleet);
/// Now, UTC, "2026-01-31T12:00:00Z".
std::string utc_now();

}  // namespace amdahl
