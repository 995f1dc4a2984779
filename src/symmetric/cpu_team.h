// A rank of a team on a CPU device: what queued work items of one-sided operations share.
#pragma once

#include <atomic>
#include <string>

#include "symmetric/cpu_symmetric.h"
#include "symmetric/symmetric_memory.h"

namespace amdahl {

/// Queued work items share its ownership.
struct CpuTeam {
  explicit CpuTeam(const SymmetricMemory& symmetric) : memory(symmetric), view(memory.view(&report)) {}
  CpuTeam(const CpuTeam&) = delete;
  CpuTeam& operator=(const CpuTeam&) = delete;

  SymmetricMemory memory;
  WaitReport report{};
  TeamView view;

  char* at(size_t offset) const { return view.base[view.rank] + offset; }
  Signal* signal_at(size_t offset) const { return reinterpret_cast<Signal*>(at(offset)); }
  void end_waits() noexcept { std::atomic_ref(report.give_up).store(1, std::memory_order_release); }
  /// Throws the error for an abandoned wait for `what`.
  [[noreturn]] void fail(const char* what) {
    const unsigned missing = std::atomic_ref(report.missing_rank).load(std::memory_order_acquire);
    if (missing == 0)
      throw Error(Cause::interrupted, std::string("a wait for ") + what + " was ended by this process",
                  "look for the first error of the job");
    throw late_rank_error(memory.team, static_cast<int>(missing) - 1, what, memory.timeout_seconds);
  }
};

}  // namespace amdahl
