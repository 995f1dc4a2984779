// Rounds of collectives in symmetric memory on CPUs: where their data is, arrivals, waits that name the late ranks.
//
// In round e a rank writes its data, then an arrival line at every other rank, waits for the lines of all and reads
// their data. Buffers and lines alternate between two sets: a rank writes the set of round e + 2 only after every rank
// has arrived at round e + 1, so that no rank still reads round e. A line carries the arguments of the call, which
// every rank compares with its own.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <vector>

#include "comm/collective_call.h"
#include "symmetric/cpu_symmetric.h"
#include "symmetric/symmetric_collectives.h"
#include "symmetric/symmetric_memory.h"

namespace amdahl {

/// Where the parts of a region for collectives are. All offsets are multiples of 64.
class CollectiveLayout {
 public:
  static constexpr size_t kLine = 64;
  static constexpr size_t kFlaggedBytes = 4096;     // payload of a flagged message, which takes twice as much
  static constexpr size_t kPushBytes = 32 << 10;    // payload of a push to one rank
  static constexpr size_t kStageBytes = 512 << 10;  // data that a rank offers to all
  static constexpr size_t kChannelSlots = 4;
  static constexpr size_t kChannelBytes = 32 << 10;  // of a slot

  explicit CollectiveLayout(int world);
  size_t arrived(uint64_t epoch, int from) const;
  size_t flagged(uint64_t epoch, int from) const;
  size_t pushed(uint64_t epoch, int from) const;
  size_t stage(uint64_t epoch) const;
  size_t channel_header(int from, uint64_t slot) const;
  size_t channel_data(int from, uint64_t slot) const;
  size_t channel_read(int by) const;  // slots of this rank's channel that rank `by` has read
  size_t bytes() const { return bytes_; }

 private:
  size_t world_, flagged_, pushed_, stage_, headers_, channels_, read_, bytes_;
};

/// The arguments of a call, in one cache line with the number of the round that they belong to.
struct alignas(CollectiveLayout::kLine) ArrivalLine {
  uint64_t count, seq;
  uint32_t kind, type, op;
  int32_t root;
  uint64_t bytes;  // of a slot of a channel
  uint64_t epoch;  // stored last, with release order

  CollectiveCall call() const;
  void write(const CollectiveCall& call, uint64_t slot_bytes, uint64_t new_epoch);
  uint64_t current() { return std::atomic_ref(epoch).load(std::memory_order_acquire); }
};
static_assert(sizeof(ArrivalLine) == CollectiveLayout::kLine);

/// One rank's part in the rounds. Errors are passed to the control communicator, which tells the other ranks.
class CpuRounds {
 public:
  /// `memory` has at least CollectiveLayout::bytes(), zeroed. `first_epoch`: number of the round before the first.
  CpuRounds(SymmetricMemory memory, std::shared_ptr<Communicator> control, RankGroup job, uint64_t first_epoch);

  int rank() const { return memory_.team.rank; }
  int size() const { return memory_.team.size(); }
  const RankGroup& job() const { return job_; }
  const CollectiveLayout& layout() const { return layout_; }
  char* at(int rank, size_t offset) const { return memory_.base[static_cast<size_t>(rank)] + offset; }
  char* own(size_t offset) const { return at(rank(), offset); }

  /// The number of a new round.
  uint64_t begin(const CollectiveCall& call);
  /// Writes this rank's line at `to`.
  void announce(const CollectiveCall& call, uint64_t epoch, int to);
  bool here(uint64_t epoch, int from) { return line(own(layout_.arrived(epoch, from)))->current() == epoch; }
  /// Announces to all and waits for all.
  void arrive(const CollectiveCall& call, uint64_t epoch);
  /// Error{collective_mismatch} when that rank has arrived with another call.
  void check_line(const CollectiveCall& call, uint64_t epoch, int from);

  /// Polls until `ready()`. `missing` returns the ranks that the wait is for; `check` is called between polls.
  template <class Ready, class Missing, class Check>
  void wait(const CollectiveCall& call, const Ready& ready, const Missing& missing, const Check& check);
  template <class Ready>
  void wait(const CollectiveCall& call, const Ready& ready, int from) {
    wait(
        call, ready, [from] { return std::vector<int>{from}; }, [] {});
  }

  [[noreturn]] void fail(const Error& error);
  void throw_if_failed();
  void abort() noexcept { aborted_.store(true, std::memory_order_release); }
  bool aborted() const { return aborted_.load(std::memory_order_acquire); }
  void set_timeout(double seconds) { timeout_seconds_.store(seconds, std::memory_order_relaxed); }
  double timeout_seconds() const { return timeout_seconds_.load(std::memory_order_relaxed); }

  static ArrivalLine* line(char* place) { return reinterpret_cast<ArrivalLine*>(place); }

 private:
  [[noreturn]] void fail_late(const CollectiveCall& call, const std::vector<int>& late, double seconds);

  const SymmetricMemory memory_;
  const std::shared_ptr<Communicator> control_;
  const RankGroup job_;
  const CollectiveLayout layout_;
  std::atomic<double> timeout_seconds_;
  std::atomic<bool> aborted_{false};
  uint64_t epoch_;
};

template <class Ready, class Missing, class Check>
void CpuRounds::wait(const CollectiveCall& call, const Ready& ready, const Missing& missing, const Check& check) {
  constexpr int kYields = 1000;
  constexpr auto kSleep = std::chrono::microseconds(50);
  if (symmetric_cpu::spin_until(ready)) return;
  const double seconds = timeout_seconds();
  const Deadline deadline = Deadline::after_seconds(seconds);
  for (int poll = 0; !ready(); ++poll) {
    check();
    throw_if_failed();
    if (deadline.expired()) fail_late(call, missing(), seconds);
    if (poll < kYields)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(kSleep);
  }
}

}  // namespace amdahl
