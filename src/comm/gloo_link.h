// Point-to-point transfers of one group of processes over Gloo, with deadlines, names of missing ranks and abort.
//
// Gloo's collectives choose their order of additions by size and algorithm and do not name a missing peer. Here Gloo
// only transfers bytes between pairs; gloo_communicator implements the collectives and their order of additions.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "comm/call_check.h"
#include "comm/call_order.h"
#include "comm/collective_call.h"
#include "comm/world.h"

namespace gloo {
class Context;
namespace transport {
class UnboundBuffer;
}
}  // namespace gloo

namespace amdahl {

/// Bytes to or from one peer.
struct GlooPart {
  int peer;
  void* data;  // only read when sending
  size_t bytes;
};

/// One step of a collective, whose transfers all run concurrently. Zero-byte parts and parts of this rank are skipped.
struct GlooStep {
  std::vector<GlooPart> sends, recvs;
};

/// A step of a call, for transfer_all.
struct GlooTransfer {
  CollectiveCall call;
  int step = 0;
  GlooStep parts;
};

class GlooLink {
 public:
  /// Connects all pairs of the group. Throws the store's first failure, or Error{peer_unreachable}.
  GlooLink(RendezvousStore& store, const std::string& name, RankGroup group, double timeout_seconds);
  ~GlooLink();
  GlooLink(const GlooLink&) = delete;
  GlooLink& operator=(const GlooLink&) = delete;

  int rank() const { return rank_; }
  int world_size() const { return group_.size(); }
  const RankGroup& group() const { return group_; }
  double timeout_seconds() const { return timeout_seconds_.load(std::memory_order_relaxed); }
  void set_timeout(double seconds) { timeout_seconds_.store(seconds, std::memory_order_relaxed); }
  RendezvousStore& store() { return store_; }

  /// Runs step `step` of `call` and returns when its transfers are complete. Throws the first failure of the world:
  /// rank_died, rank_hung with the missing ranks, collective_mismatch. Called by stream workers; steps of different
  /// calls may overlap.
  void transfer(const CollectiveCall& call, int step, const GlooStep& parts, Deadline deadline);
  /// Runs steps of several calls concurrently.
  void transfer_all(const std::vector<GlooTransfer>& transfers, Deadline deadline);
  /// Ends running and future transfers of this rank with `cause`. Thread-safe.
  void abort(const Error& cause) noexcept;
  /// Throws the abort's cause if there is one.
  void throw_if_aborted();
  /// Waits until it is the turn of collective number `call.seq`; throws the abort's cause or rank_hung of this rank.
  void await_turn(const CollectiveCall& call, Deadline deadline);
  void finish_turn(const CollectiveCall& call) { order_.finish(call.seq); }

 private:
  using BufferPtr = std::unique_ptr<gloo::transport::UnboundBuffer>;
  struct Pending {
    BufferPtr buffer;
    int peer;
    bool receiving;
    bool done = false;
  };

  void post(const CollectiveCall& call, int step, const GlooStep& parts, std::vector<Pending>& pending);
  void await(std::vector<Pending>& pending, Deadline deadline);
  /// The error for a transfer that ended early: the first failure of the world, as reported or as observed here.
  Error explain(const CollectiveCall& call, const std::vector<Pending>& pending, bool at_deadline,
                const std::string& what);
  std::unique_ptr<Error> await_verdict(Deadline deadline);
  Error explain_deadline(const CollectiveCall& call, const std::vector<int>& missing);
  bool gave_up_too(int peer, Deadline deadline);
  std::string gave_up_key(int rank) const { return "gave-up/" + name_ + "/" + std::to_string(rank); }

  RendezvousStore& store_;
  const std::string name_;
  const RankGroup group_;
  const int rank_;  // in the group, as peers are
  std::atomic<double> timeout_seconds_;
  std::shared_ptr<gloo::Context> context_;
  std::unique_ptr<CallCheck> check_;
  CallOrder order_;
  std::atomic<bool> aborted_{false};

  std::mutex mutex_;  // guards the following
  std::unique_ptr<Error> cause_;
  std::set<gloo::transport::UnboundBuffer*> running_;
  size_t listener_ = 0;
};

}  // namespace amdahl
