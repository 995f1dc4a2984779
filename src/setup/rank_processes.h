// Child processes of this program that are the ranks of a job on this host.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/child_process.h"

namespace amdahl {

/// What a child inherits: without variables that would make it a rank of this process's job, and without NCCL's log.
std::map<std::string, std::string> inherited_environment(const std::map<std::string, std::string>& environment);
/// A free TCP port of this host.
int free_port();
/// The command once per rank, with the variables of a launcher; rank 0 is first.
std::vector<ChildCommand> as_ranks(const ChildCommand& command, int ranks);
/// The error line of a child that failed, or how it ended. `seconds`: the deadline that was set.
std::string reason_of_failure(const std::vector<ChildResult>& results, double seconds);

}  // namespace amdahl
