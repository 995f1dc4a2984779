// The limit of processors that a control group sets, as of a container or a batch job: the kernel stops all threads of
// the group once they have used their share of a period.
#pragma once

#include <filesystem>
#include <string>

namespace amdahl {

struct ControlGroupCpu {
  double limit = 0;          // processors, of the strictest group that this process is in; 0: no limit
  double throttled_us = -1;  // that its threads were stopped for the limit, summed over processors; -1: unknown
};

/// Of this process. `groups`: the text of /proc/self/cgroup; `mount`: where the control groups are, of version 1 or 2.
ControlGroupCpu control_group_cpu(const std::string& groups, const std::filesystem::path& mount);
ControlGroupCpu control_group_cpu();

}  // namespace amdahl
