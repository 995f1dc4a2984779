// State shared by the ranks of one process: published pointers, barriers that name missing ranks, the first failure.
//
// Every wait ends when its condition holds, at its deadline, or when any rank fails the group. Touch and leave()
// prevent a rank that leaves early from freeing buffers that another rank still reads or writes. Thread-safe.
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

/// Arguments that one rank published for the current collective.
struct InprocSlot {
  CollectiveCall call;
  const void* send = nullptr;
  void* recv = nullptr;
  std::string message;  // exchange only
};

/// One direction between two ranks. The sender publishes and waits; the receiver copies and increments `consumed`.
struct InprocMailbox {
  CollectiveCall call;
  const void* data = nullptr;
  std::atomic<uint64_t> posted{0};
  std::atomic<uint64_t> consumed{0};
  WaitPoint changed;
};

class InprocGroup {
 public:
  /// A group of the first ranks of the job.
  explicit InprocGroup(int world_size, double timeout_seconds);
  /// `job_ranks`: rank in the job by rank in the group, for messages.
  InprocGroup(std::vector<int> job_ranks, double timeout_seconds);

  int world_size() const { return world_size_; }
  int job_rank(int rank) const { return job_ranks_[static_cast<size_t>(rank)]; }

  /// The group of some of these ranks, the same object for all its members, each of which calls this once with the same
  /// name. It fails when this group does.
  std::shared_ptr<InprocGroup> subgroup(const RankGroup& members, const std::string& name);

  double timeout_seconds() const { return timeout_seconds_.load(std::memory_order_relaxed); }
  void set_timeout(double seconds) { timeout_seconds_.store(seconds, std::memory_order_relaxed); }

  /// Independent sets of slots and barriers: for stream collectives and for the control plane.
  enum class Plane { stream, control };
  InprocSlot& slot(Plane plane, int rank) { return planes_[index(plane)].ranks[static_cast<size_t>(rank)].slot; }
  /// Arrives and waits for all ranks. Throws the group's first failure; at the deadline fails the group with rank_hung.
  void meet(Plane plane, int rank, const CollectiveCall& call, Deadline deadline, double timeout_seconds);

  InprocMailbox& mailbox(int from, int to) {
    return *mailboxes_[static_cast<size_t>(from) * static_cast<size_t>(world_size_) + static_cast<size_t>(to)];
  }
  /// Waits until `ready()`, on `point`. Throws as meet(), where `peer` is the missing rank.
  template <class Ready>
  void wait_for_peer(WaitPoint& point, const Ready& ready, int peer, const CollectiveCall& call, Deadline deadline) {
    if (!point.wait([&] { return failed() || ready(); }, deadline))
      fail(hung_error({job_rank(peer)}, call, timeout_seconds()));
    if (failed()) leave();
  }

  /// Records the first failure and wakes all waits. Later failures are consequences and are ignored.
  void fail(const Error& error) noexcept;
  bool failed() const { return failed_.load(std::memory_order_seq_cst); }
  /// Waits until no rank accesses another's buffers, then throws the first failure.
  [[noreturn]] void leave();

  /// During its lifetime this rank may access buffers of other ranks. The constructor throws the first failure, if any.
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
  std::map<std::string, Asked> asked_;             // subgroups that not all their ranks have requested yet
  std::vector<std::weak_ptr<InprocGroup>> parts_;  // all subgroups
  std::unique_ptr<Error> first_failure_;
};

}  // namespace amdahl
