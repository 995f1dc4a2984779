// From a CollectivesConfig to what is measured; shared by the verbs that run it here and in processes of its own.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "amdahl/amdahl.h"
#include "measure/collective_sweep.h"

namespace amdahl {

/// Error{usage} for numbers out of range, and for NCCL variables of its environment that NCCL does not take.
void check_collectives(const CollectivesConfig& config);

/// A sweep for each collective, type and, where it reduces, operation. Error{usage} for unknown names and a root that
/// is no rank.
std::vector<SweepSettings> sweeps_of(const CollectivesConfig& config, int devices);

/// What a run folder says about itself.
std::map<std::string, std::string> collectives_identity(const CollectivesConfig& config, int devices);

}  // namespace amdahl
