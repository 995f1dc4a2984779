// From a CollectivesConfig to what is measured; shared by the verbs that run it here and in processes of its own.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "amdahl/amdahl.h"
#include "comm/job_facts.h"
#include "measure/collectives/sweep.h"

namespace amdahl {

/// Error{usage} for numbers out of range, and for NCCL variables of its environment that NCCL does not take.
void check_collectives(const CollectivesConfig& config);

/// A sweep for each collective, type and, where it reduces, operation. Error{usage} for unknown names and a root that
/// is no rank.
std::vector<SweepSettings> sweeps_of(const CollectivesConfig& config, int devices);

/// GPUs that are all joined by NVLink.
struct NvlinkFabric {
  double link_gbps = 0;          // what the links of a device carry in one direction; 0: not joined, or not known
  bool switches_reduce = false;  // the links end in switches that can add up (NVLS)
};
/// Sets link_gbps and peak_gbps: all-reduce that the switches may add up sends and receives its data once, and not
/// 2 (n - 1) / n times. `environment` says whether NCCL may let them.
void set_limit(const NvlinkFabric& fabric, const std::map<std::string, std::string>& environment, SweepSettings& sweep);

/// What a run folder says about itself.
std::map<std::string, std::string> collectives_identity(const CollectivesConfig& config, int devices);

/// What the ranks of a launched job must have alike.
JobFacts collectives_facts(const CollectivesConfig& config, int devices);

}  // namespace amdahl
