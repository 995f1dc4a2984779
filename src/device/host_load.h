// Processor time of the host used by this process, other programs and the hypervisor. It shows when steps of CPU
// virtual devices took longer because another program used their processors.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/contention.h"

namespace amdahl {

/// Microseconds of processor time since an arbitrary start, summed over processors or threads; negative when not
/// available. Only differences of two readings are meaningful.
struct HostLoad {
  double busy_us = -1;       // all processors, all programs; resolution: kernel ticks, usually 10 ms
  double stolen_us = -1;     // steal time: processors requested by this host that the hypervisor gave to others
  double own_us = -1;        // this process's threads
  double waited_us = -1;     // this process's threads, runnable without a processor
  double throttled_us = -1;  // threads of its control group, stopped for the limit of processors

  bool known() const { return busy_us >= 0 && own_us >= 0 && waited_us >= 0; }
};

/// Reads /proc of Linux. Takes about 10 us per thread.
HostLoad read_host_load();

/// Load from `before` to `after`; unknown values stay unknown.
HostLoad operator-(const HostLoad& after, const HostLoad& before);

/// Load seen by one process of a job during an interval common to all.
struct ProcessLoad {
  int64_t process = 0, host = 0;  // any numbers that identify processes and hosts
  HostLoad load;
};

/// Contention on the host where the job lost most; absent when a reading is missing.
std::optional<Contention> contention_of(std::span<const ProcessLoad> processes);

namespace detail {
/// Sum of user, nice, system, irq, softirq and guest-free steal of the line "cpu " of /proc/stat, in ticks.
struct StatTicks {
  double busy = -1, stolen = -1;
};
StatTicks stat_ticks(const std::string& proc_stat);
}  // namespace detail

}  // namespace amdahl
