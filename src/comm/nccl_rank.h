// One rank's NCCL communicator: its start, its calls, its end in time whatever the peers do.
//
// It is a blocking one: a non-blocking one hands every collective to a new thread, which costs more than a small
// training step. What may wait for a peer that never comes (start, registration, abort, end) runs on a thread of its
// own instead.
#pragma once

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>

#include "base/deadline.h"
#include "comm/nccl_api.h"
#include "comm/world.h"
#include "device/cuda_device.h"

namespace amdahl {

/// Shared with whoever may abort it.
class NcclRank final : public StreamWatch, public std::enable_shared_from_this<NcclRank> {
 public:
  /// `store` is null for ranks of one process.
  NcclRank(std::shared_ptr<const NcclApi> api, int device_index, RendezvousStore* store)
      : api_(std::move(api)), device_index_(device_index), store_(store) {}

  const NcclApi& api() const { return *api_; }
  int device_index() const { return device_index_; }
  /// A rank of another communicator on the same device, not started.
  std::shared_ptr<NcclRank> sibling() const { return std::make_shared<NcclRank>(api_, device_index_, store_); }

  std::future<ncclResult_t> start(ncclUniqueId id, int rank, int world_size);

  /// Enqueues `work(comm)`; throws the cause when the communicator was aborted.
  template <class Work>
  void call(const char* name, const Work& work) {
    std::unique_lock lock(mutex_);
    rethrow();
    api_->check(work(comm_), name, comm_);
  }

  /// Runs `work(comm)` that waits for all ranks; Error{rank_hung} at the deadline. What `work` refers to must outlive
  /// that: it may go on.
  void call_with_peers(const char* name, std::function<ncclResult_t(ncclComm_t)> work, Deadline deadline);

  /// Runs `work(comm)` when the communicator still stands, in bounded time. False when it does not stand or the time is
  /// up.
  bool tidy(std::function<ncclResult_t(ncclComm_t)> work) noexcept;

  /// Pending work of this rank ends, later calls throw `cause`. The first cause stays.
  void abort(const Error& cause) noexcept;
  /// Orderly end. Bounded, because it waits for graphs that still hold this communicator's work.
  void finish() noexcept;
  /// Whether it was aborted: kernels of its collectives may then run on for a while.
  bool lost() const { return lost_.load(std::memory_order_acquire); }

  void rethrow() override;
  void look() override;
  void give_up(const Error& cause) noexcept override;

 private:
  const std::shared_ptr<const NcclApi> api_;
  const int device_index_;
  RendezvousStore* const store_;
  std::timed_mutex mutex_;  // held during host calls on comm_
  ncclComm_t comm_ = nullptr;
  std::atomic<bool> lost_{false};
  std::atomic<bool> retired_{false};  // its communicator is gone: the device's streams no longer depend on it
  std::mutex cause_mutex_;
  std::optional<Error> cause_;
};

}  // namespace amdahl
