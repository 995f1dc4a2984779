// One rank of an NCCL communicator: host calls that may be stuck, their end, and who hears of it.
#pragma once

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "comm/nccl_api.h"
#include "comm/world.h"
#include "device/cuda_device.h"

namespace amdahl {

/// One rank's NCCL communicator. Shared with whoever may abort it.
class NcclRank final : public StreamWatch, public std::enable_shared_from_this<NcclRank> {
 public:
  NcclRank(std::shared_ptr<const NcclApi> api, int device_index, RendezvousStore* store)
      : api_(std::move(api)), device_index_(device_index), store_(store) {}

  const NcclApi& api() const { return *api_; }

  std::future<ncclResult_t> start(ncclUniqueId id, int rank, int world_size);

  /// Enqueues `work(comm)`; throws the cause when the communicator was aborted.
  template <class Work>
  void call(const char* name, const Work& work) {
    std::unique_lock lock(mutex_);
    rethrow();
    api_->check(work(comm_), name, comm_);
  }

  /// Pending work of this rank ends, later calls throw `cause`. The first cause stays.
  void abort(const Error& cause) noexcept;

  /// Orderly end. Bounded, because it waits for graphs that still hold this communicator's work.
  void finish() noexcept;

  void rethrow() override;

  void look() override;
  void give_up(const Error& cause) noexcept override {
    if (!retired_.load(std::memory_order_acquire)) abort(cause);
  }

 private:
  const std::shared_ptr<const NcclApi> api_;
  const int device_index_;
  RendezvousStore* const store_;  // null for ranks of one process
  std::timed_mutex mutex_;        // held during host calls on comm_
  ncclComm_t comm_ = nullptr;
  std::atomic<bool> lost_{false};
  std::atomic<bool> retired_{false};  // its communicator is gone: the device's streams no longer depend on it
  std::mutex cause_mutex_;
  std::optional<Error> cause_;
};

}  // namespace amdahl
