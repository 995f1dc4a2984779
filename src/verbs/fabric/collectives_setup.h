// Turns a CollectivesConfig into sweeps; shared by the verbs that measure in this process and in child processes.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "amdahl/fabric.h"
#include "comm/job_facts.h"
#include "measure/collectives/sweep.h"

namespace amdahl {

/// Error{usage} for numbers out of range, and for NCCL variables in its environment that NCCL does not accept.
void check_collectives(const CollectivesConfig& config);

/// One sweep per collective, type and, for reductions, operation. Error{usage} for unknown names and a root that is not
/// a rank.
std::vector<SweepSettings> sweeps_of(const CollectivesConfig& config, int devices);

/// NVLink connectivity between all GPUs.
struct NvlinkFabric {
  double link_gbps = 0;          // of all links of a device in one direction; 0: not fully connected, or unknown
  bool switches_reduce = false;  // the links connect to switches that can reduce in the network (NVLS)
};
/// Sets link_gbps and peak_gbps. With reduction in the switches, all-reduce sends and receives its data once instead of
/// 2 (n - 1) / n times. `environment` says whether NCCL may use it.
void set_limit(const NvlinkFabric& fabric, const std::map<std::string, std::string>& environment, SweepSettings& sweep);

/// The header fields of a run folder.
std::map<std::string, std::string> collectives_identity(const CollectivesConfig& config, int devices);

/// What must be equal on all ranks of a launched job.
JobFacts collectives_facts(const CollectivesConfig& config, int devices);

}  // namespace amdahl
