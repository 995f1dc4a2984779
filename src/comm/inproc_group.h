// What the ranks of one process share: published pointers, barriers that name who is missing, the first failure.
//
// Every wait ends when its condition holds, at its deadline, or when any rank fails the group. A rank that leaves early
// must not free buffers that another rank is still reading or writing: Touch and leave() see to that.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/wait_point.h"
#include "comm/collective_call.h"

namespace amdahl {

/// What one rank published for the current collective.
struct InprocSlot {
  CollectiveCall call;
  const void* send = nullptr;
  void* recv = nullptr;
  std::string message;  // exchange only
};

/// One direction between two ranks. The sender writes and waits; the receiver copies and counts.
struct InprocMailbox {
  CollectiveCall call;
  const void* data = nullptr;
  std::atomic<uint64_t> posted{0};
  std::atomic<uint64_t> consumed{0};
  WaitPoint changed;
};

class InprocGroup {
 public:
  /// Its ranks are the first of the job.
  explicit InprocGroup(int world_size, double timeout_seconds);
  /// `job_ranks`: by rank, for messages.
  InprocGroup(std::vector<int> job_ranks, double timeout_seconds);

  int world_size() const { return world_size_; }
  int job_rank(int rank) const { return job_ranks_[static_cast<size_t>(rank)]; }

  /// The group of some of these ranks: the same one for all of them, each of which asks once by the same name. It fails
  /// when this one does.
  std::shared_ptr<InprocGroup> subgroup(const RankGroup& members, const std::string& name);

  double timeout_seconds() const { return timeout_seconds_.load(std::memory_order_relaxed); }
  void set_timeout(double seconds) { timeout_seconds_.store(seconds, std::memory_order_relaxed); }

  /// Rows of slots and barriers that do not disturb each other: stream collectives and the control plane.
  enum class Plane { stream, control };
  InprocSlot& slot(Plane plane, int rank) { return planes_[index(plane)].ranks[static_cast<size_t>(rank)].slot; }
  /// Arrives and waits for all ranks. Throws the group's first failure; at the deadline fails it with rank_hung.
  void meet(Plane plane, int rank, const CollectiveCall& call, Deadline deadline, double timeout_seconds);

  InprocMailbox& mailbox(int from, int to) {
    return *mailboxes_[static_cast<size_t>(from) * static_cast<size_t>(world_size_) + static_cast<size_t>(to)];
  }
  /// Waits on `point`; throws like meet(), naming `peer`.
  template <class Ready>
  void wait_for_peer(WaitPoint& point, const Ready& ready, int peer, const CollectiveCall& call, Deadline deadline) {
    if (!point.wait([&] { return failed() || ready(); }, deadline))
      fail(hung_error({job_rank(peer)}, call, timeout_seconds()));
    if (failed()) leave();
  }

  /// Records the first failure, wakes everybody. Later failures are consequences and are dropped.
  void fail(const Error& error) noexcept;
  bool failed() const { return failed_.load(std::memory_order_seq_cst); }
  /// Waits until no rank touches another's buffers, then throws the first failure.
  [[noreturn]] void leave();

  /// While it lives, this rank reads or writes buffers of other ranks. Throws the first failure if there is one.
  class Touch {
   public:
    explicit Touch(InprocGroup& group) : group_(group) {
      group_.touching_.fetch_add(1, std::memory_order_seq_cst);
      if (group_.failed()) {
        group_.touching_.fetch_sub(1, std::memory_order_seq_cst);
        group_.leave();
      }
    }
    ~Touch() { group_.touching_.fetch_sub(1, std::memory_order_seq_cst); }
    Touch(const Touch&) = delete;
    Touch& operator=(const Touch&) = delete;

   private:
    InprocGroup& group_;
  };

 private:
  struct alignas(64) Rank {
    InprocSlot slot;
    std::atomic<uint64_t> arrivals{0};
  };
  struct PlaneState {
    std::unique_ptr<Rank[]> ranks;
    WaitPoint all_here;
  };
  static size_t index(Plane plane) { return static_cast<size_t>(plane); }
  bool all_arrived(const PlaneState& plane, uint64_t arrivals) const;

  struct Asked {
    std::shared_ptr<InprocGroup> group;
    int times = 0;
  };

  const std::vector<int> job_ranks_;
  const int world_size_;
  std::atomic<double> timeout_seconds_;
  PlaneState planes_[2];
  std::vector<std::unique_ptr<InprocMailbox>> mailboxes_;  // [from, to]
  std::atomic<int> touching_{0};
  std::atomic<bool> failed_{false};
  std::mutex mutex_;                               // guards the following
  std::map<std::string, Asked> asked_;             // subgroups that not all of their ranks have asked for
  std::vector<std::weak_ptr<InprocGroup>> parts_;  // all that there are
  std::unique_ptr<Error> first_failure_;
};

}  // namespace amdahl
