// Collectives in symmetric memory, executed by CPU code: all ranks write and read each other's regions (cpu_rounds.h).
//
// Sums are computed in rank order by every rank, or by one rank for all: all ranks hold the same bits.
#pragma once

#include <vector>

#include "comm/call_order.h"
#include "symmetric/cpu_rounds.h"

namespace amdahl {

/// One rank's executor, called by stream workers.
class CpuCollectives {
 public:
  /// Every rank passes the same `options`.
  CpuCollectives(CpuRounds& rounds, const SymmetricOptions& options);

  /// Waits for the call's turn, executes it, lets the next one start. Throws Error{rank_hung} with the missing ranks,
  /// Error{collective_mismatch}, and the first failure that the control communicator knows.
  void run(const CollectiveCall& call, const void* send, void* recv);

 private:
  void dispatch(const CollectiveCall& call, const void* send, void* recv);
  void all_reduce(const CollectiveCall& call, const char* send, char* recv);
  void all_reduce_flagged(const CollectiveCall& call, const char* send, char* recv);
  void all_reduce_one_shot(const CollectiveCall& call, const char* send, char* recv);
  void all_reduce_two_shot(const CollectiveCall& call, const char* send, char* recv);
  void reduce(const CollectiveCall& call, const char* send, char* recv);
  void broadcast(const CollectiveCall& call, const char* send, char* recv);
  void gather(const CollectiveCall& call, const char* send, char* recv);
  void reduce_scatter(const CollectiveCall& call, const char* send, char* recv);
  void scatter(const CollectiveCall& call, const char* send, char* recv);
  void all_to_all(const CollectiveCall& call, const char* send, char* recv);

  /// Makes what the ranks offer in this round, from `offset` on, the sources of a sum.
  void take_stages(uint64_t epoch, size_t offset);
  /// Elements [begin, end) of `result`: the sums of the sources in rank order.
  void add_up(const CollectiveCall& call, char* result, size_t begin, size_t end);

  size_t world() const { return static_cast<size_t>(rounds_.size()); }

  CpuRounds& rounds_;
  const SymmetricOptions options_;
  CallOrder order_;
  std::vector<char> received_;
  std::vector<const void*> sources_;
};

}  // namespace amdahl
