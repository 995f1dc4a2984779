// One rank of a measurement of one-sided operations: its memory, its ways to communicate, and timed repetitions.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "measure/onesided/bench.h"
#include "symmetric/symmetric_collectives.h"
#include "symmetric/symmetric_heap.h"

namespace amdahl {

/// What is measured as one Record.
struct OneSidedCell {
  const OneSidedOperation* operation = nullptr;
  std::string transport;
  int64_t bytes = 0;
  int blocks = 1, threads = 256;
};

/// All methods are collective over the ranks. Throws the first failure of any rank that the communicator knows, instead
/// of waiting for the deadline.
class OneSidedRank {
 public:
  OneSidedRank(RankContext& rank, const OneSidedSettings& settings);
  /// Ends waits of other work of this rank when an error is on its way.
  ~OneSidedRank();
  OneSidedRank(const OneSidedRank&) = delete;
  OneSidedRank& operator=(const OneSidedRank&) = delete;

  std::vector<OneSidedCell> cells() const;
  double clock_mhz() { return rank_.device.health().sm_clock_mhz; }
  bool emulated() const { return heap_.emulated(); }
  /// Calls of a captured graph, for operations that are timed in one; 0 for the others.
  int64_t graph_calls(const OneSidedCell& cell) const;
  /// Microseconds of `times` repetitions on this rank.
  double time_us(const OneSidedCell& cell, int64_t times);
  /// Wrong bytes over all ranks after one repetition.
  double count_wrong(const OneSidedCell& cell);

 private:
  void add_algorithm(SymmetricAlgorithm algorithm);
  void enqueue(const OneSidedCell& cell, int64_t times);
  void enqueue_messages(const OneSidedCell& cell, int64_t times);
  double replayed_us(const OneSidedCell& cell, int64_t times);
  void finish();
  char* address(const SymmetricArray<char>& array) const { return heap_.local(array); }
  Communicator& communicator_of(const std::string& transport);
  Deadline deadline() const { return Deadline::after_seconds(settings_.timeout_seconds); }

  RankContext& rank_;
  const OneSidedSettings& settings_;
  const size_t most_bytes_;
  SymmetricHeap heap_;
  SymmetricArray<char> outbox_, inbox_;
  SymmetricArray<Signal> signals_;
  SymmetricArray<char> packets_;
  SymmetricArray<uint64_t> counter_;
  std::map<std::string, std::unique_ptr<Communicator>> symmetric_;  // by transport
  std::unique_ptr<OneSidedLoops> loops_;
  CallQueue queue_;
  std::unique_ptr<Event> start_, end_, done_;
  std::unique_ptr<Stream> stream_;  // after what its work uses
  std::unique_ptr<Graph> graph_;
  std::string graph_key_;
  uint64_t signals_sent_ = 0;
};

}  // namespace amdahl
