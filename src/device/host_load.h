// What the host's processors did: this process, other programs, and a hypervisor that kept processors for itself. Steps
// of CPU virtual devices take longer while another program has their processors, and nothing else tells.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/contention.h"

namespace amdahl {

/// Microseconds of processor time since some moment in the past, summed over processors or threads; negative where the
/// host does not say. Differences of two readings are what counts.
struct HostLoad {
  double busy_us = -1;    // of all processors, whoever had them; in ticks of the kernel, 10 ms as a rule
  double stolen_us = -1;  // processors that were wanted here and that the hypervisor gave to others
  double own_us = -1;     // of this process's threads
  double waited_us = -1;  // this process's threads were ready to run and had no processor

  bool known() const { return busy_us >= 0 && own_us >= 0 && waited_us >= 0; }
};

/// Of Linux's /proc. Takes about 10 us a thread.
HostLoad read_host_load();

/// From `before` to `after`; unknown where one of them is.
HostLoad operator-(const HostLoad& after, const HostLoad& before);

/// One process of a job and what it saw of its host in the same stretch of time.
struct ProcessLoad {
  int64_t process = 0, host = 0;  // any numbers that tell processes and hosts apart
  HostLoad load;
};

/// On the host where the job lost most; nothing where a reading is missing.
std::optional<Contention> contention_of(std::span<const ProcessLoad> processes);

namespace detail {
/// Sum of user, nice, system, irq, softirq and guest-free steal of the line "cpu " of /proc/stat, in ticks.
struct StatTicks {
  double busy = -1, stolen = -1;
};
StatTicks stat_ticks(const std::string& proc_stat);
}  // namespace detail

}  // namespace amdahl
