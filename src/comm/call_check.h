// Detects ranks that wait for each other in different calls long before their deadline, without adding data to
// transfers.
//
// The tag of a transfer identifies the whole call, so that ranks with different calls wait for each other. A call that
// waits longer than a short time publishes its description in the rendezvous store and reads once what its peers have
// published: the later one of two different calls finds the other. A fast call costs two uncontended locks.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "comm/collective_call.h"
#include "comm/world.h"

namespace amdahl {

class CallCheck {
 public:
  /// Reports a mismatch to `store`, which notifies all ranks. `name`: name of the group.
  CallCheck(RendezvousStore& store, const std::string& name, const RankGroup& group, double timeout_seconds);
  ~CallCheck();
  CallCheck(const CallCheck&) = delete;
  CallCheck& operator=(const CallCheck&) = delete;

  /// Marks a call as waiting for peers during the lifetime of this object.
  class Waiting {
   public:
    Waiting(CallCheck& check, const CollectiveCall& call) : check_(check), id_(check.begin(call)) {}
    ~Waiting() { check_.end(id_); }
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;

   private:
    CallCheck& check_;
    uint64_t id_;
  };

 private:
  using Clock = Deadline::Clock;
  struct Entry {
    uint64_t id;
    CollectiveCall call;
    Clock::time_point since;
    bool said = false;
  };

  uint64_t begin(const CollectiveCall& call);
  void end(uint64_t id);
  void watch();
  std::vector<CollectiveCall> overdue();
  void compare(const std::vector<CollectiveCall>& mine);
  std::string key_of(int rank) const { return "calls/" + name_ + "/" + std::to_string(rank); }

  RendezvousStore& store_;
  const std::string name_;
  const RankGroup group_;
  const int rank_;  // in the group, as peers are
  const Clock::duration patience_;

  std::mutex mutex_;  // guards the following
  std::condition_variable ending_changed_;
  std::vector<Entry> entries_;
  uint64_t next_id_ = 0;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace amdahl
