// Ends a rank whose launcher was killed; without this the rank would keep running. Lets a rank that failed end first.
#pragma once

#include <map>
#include <string>

namespace amdahl::cli {

/// When the process that started this rank (mpirun or its daemon, torchrun, srun's step daemon) ends, ends this process
/// as SIGTERM does. Does nothing without a launcher, or when the kernel has no pidfd_open (before Linux 5.3). Ranks
/// started by a script or shell that sets the variables itself are not watched.
void watch_launcher(const std::map<std::string, std::string>& environment);

/// Called by a rank that ends because another one did. Waits half a second when there is a launcher: mpirun and srun
/// kill every rank as soon as one has failed, and the rank with the cause has to print it before that.
void let_failed_rank_end_first();

/// "process 12 (mpirun)" after the launcher has ended; empty before.
std::string gone_launcher();

}  // namespace amdahl::cli
