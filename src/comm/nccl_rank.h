// One rank's NCCL communicator: start, calls, and an end in bounded time whatever the peers do.
//
// It is a blocking communicator, because a non-blocking one starts a thread for every collective, which costs more than
// a small training step. Calls that can wait for a missing peer (start, registration, abort, end) run on separate
// threads.
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

/// Shared by all code that may abort it. Thread-safe.
class NcclRank final : public StreamWatch, public std::enable_shared_from_this<NcclRank> {
 public:
  /// `store`: null for ranks of one process.
  NcclRank(std::shared_ptr<const NcclApi> api, int device_index, RendezvousStore* store)
      : api_(std::move(api)), device_index_(device_index), store_(store) {}

  const NcclApi& api() const { return *api_; }
  int device_index() const { return device_index_; }
  /// A new rank for another communicator on the same device, not started.
  std::shared_ptr<NcclRank> sibling() const { return std::make_shared<NcclRank>(api_, device_index_, store_); }

  std::future<ncclResult_t> start(ncclUniqueId id, int rank, int world_size);

  /// Calls `work(comm)`, which enqueues; throws the cause when the communicator was aborted.
  template <class Work>
  void call(const char* name, const Work& work) {
    std::unique_lock lock(mutex_);
    rethrow();
    api_->check(work(comm_), name, comm_);
  }

  /// Runs `work(comm)`, which waits for all ranks. Error{rank_hung} at the deadline; `work` may then still be running,
  /// so that everything it refers to must outlive it.
  void call_with_peers(const char* name, std::function<ncclResult_t(ncclComm_t)> work, Deadline deadline);

  /// Runs `work(comm)` in bounded time unless the communicator was aborted or ended. False when it was, or after the
  /// timeout.
  bool tidy(std::function<ncclResult_t(ncclComm_t)> work) noexcept;

  /// Ends pending work of this rank; later calls throw `cause`. The first cause is kept.
  void abort(const Error& cause) noexcept;
  /// Destroys the communicator in bounded time: NCCL would wait for graphs that contain its work.
  void finish() noexcept;
  /// Whether it was aborted; kernels of its collectives may then still run for a while.
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
  std::atomic<bool> retired_{false};  // the communicator is destroyed: streams no longer depend on it
  std::mutex cause_mutex_;
  std::optional<Error> cause_;
};

}  // namespace amdahl
