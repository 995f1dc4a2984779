// A rank outlives a launcher that is killed: nothing else would end it.
#pragma once

#include <map>
#include <string>

namespace amdahl::cli {

/// Once the process that started this rank (mpirun or its daemon, torchrun, srun's step daemon) is gone, ends this one
/// as SIGTERM does. Nothing without a launcher, and where the kernel has no pidfd_open (before Linux 5.3). A rank that
/// a script or a shell started with variables of its own may outlive that.
void watch_launcher(const std::map<std::string, std::string>& environment);

/// "process 12 (mpirun)" once it is gone; empty before.
std::string gone_launcher();

}  // namespace amdahl::cli
