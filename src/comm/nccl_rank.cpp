#include "comm/nccl_rank.h"

#include <fmt/format.h>

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>
#include <utility>

namespace amdahl {
namespace {

constexpr auto kHostCallPatience = std::chrono::seconds(1);
constexpr auto kTeardownPatience = std::chrono::seconds(10);

std::atomic<int> g_detached{0};  // threads of start_detached that are at work

/// The destructors of libraries must not run while such a thread uses them: an abort may still be under way when a run
/// that was stopped ends. After a hang the process ends without them.
void wait_for_detached(int status, void*) {
  const auto deadline = std::chrono::steady_clock::now() + 2 * kHostCallPatience;
  while (g_detached.load() > 0 && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  if (g_detached.load() == 0) return;
  std::fflush(nullptr);
  _exit(status);
}

/// Runs `work` on a detached thread with the device current, so that the caller can stop waiting for it.
std::future<ncclResult_t> start_detached(int device_index, std::function<ncclResult_t()> work) {
  static const int registered = on_exit(wait_for_detached, nullptr);
  static_cast<void>(registered);
  // Counts until the task and what it owns are gone.
  const std::shared_ptr<void> counted((++g_detached, nullptr), [](void*) { --g_detached; });
  std::packaged_task<ncclResult_t()> task([device_index, counted, work = std::move(work)] {
    return cudaSetDevice(device_index) == cudaSuccess ? work() : ncclUnhandledCudaError;
  });
  std::future<ncclResult_t> result = task.get_future();
  std::thread(std::move(task)).detach();
  return result;
}

}  // namespace

std::future<ncclResult_t> NcclRank::start(ncclUniqueId id, int rank, int world_size) {
  return start_detached(device_index_, [self = shared_from_this(), id, rank, world_size] {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 1;
    return self->api_->comm_init_rank_config(&self->comm_, world_size, id, rank, &config);
  });
}

void NcclRank::call_with_peers(const char* name, std::function<ncclResult_t(ncclComm_t)> work, Deadline deadline) {
  rethrow();
  auto done = start_detached(device_index_, [self = shared_from_this(), work = std::move(work)] {
    const std::unique_lock lock(self->mutex_);
    return self->comm_ ? work(self->comm_) : ncclInvalidUsage;
  });
  if (done.wait_until(deadline.time()) != std::future_status::ready)
    throw Error(Cause::rank_hung, fmt::format("{} did not end before the deadline: not every rank came to it", name),
                "look for the rank that is missing; NCCL_DEBUG=INFO shows who came");
  const ncclResult_t result = done.get();
  rethrow();
  if (result == ncclSuccess) return;
  const std::unique_lock lock(mutex_, deadline.time());  // abort() may take the communicator meanwhile
  api_->check(result, name, lock ? comm_ : nullptr);
}

bool NcclRank::tidy(std::function<ncclResult_t(ncclComm_t)> work) noexcept {
  try {
    if (lost_) return false;
    auto done = start_detached(device_index_, [self = shared_from_this(), work = std::move(work)] {
      const std::unique_lock lock(self->mutex_);
      return self->comm_ ? work(self->comm_) : ncclInvalidUsage;
    });
    return done.wait_for(kTeardownPatience) == std::future_status::ready && done.get() == ncclSuccess;
  } catch (...) {
    return false;
  }
}

void NcclRank::abort(const Error& cause) noexcept {
  try {
    {
      std::lock_guard lock(cause_mutex_);
      if (cause_) return;
      cause_.emplace(cause);
      lost_.store(true, std::memory_order_release);
    }
    // NCCL sets its abort flag at once, but returns only when the last graph with its work is destroyed: do not wait.
    start_detached(device_index_, [self = shared_from_this()] {
      // A host call that hangs in NCCL holds the lock, and only the abort ends it.
      const std::unique_lock lock(self->mutex_, kHostCallPatience);
      return self->comm_ ? self->api_->comm_abort(std::exchange(self->comm_, nullptr)) : ncclSuccess;
    });
  } catch (...) {  // no thread available: the deadlines of the streams end the job
  }
}

void NcclRank::finish() noexcept {
  retired_.store(true, std::memory_order_release);
  try {
    if (lost_) return;
    start_detached(device_index_, [self = shared_from_this()] {
      const std::unique_lock lock(self->mutex_);
      return self->comm_ ? self->api_->comm_destroy(std::exchange(self->comm_, nullptr)) : ncclSuccess;
    }).wait_for(kTeardownPatience);
  } catch (...) {
  }
}

void NcclRank::rethrow() {
  if (!lost_.load(std::memory_order_acquire) || retired_.load(std::memory_order_acquire)) return;
  std::lock_guard lock(cause_mutex_);
  throw *cause_;
}

void NcclRank::look() {
  if (retired_.load(std::memory_order_acquire)) return;
  if (store_)
    if (const auto failure = store_->failure()) throw Error(*failure);
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock || !comm_) return;
  ncclResult_t state = ncclSuccess;
  api_->check(api_->comm_get_async_error(comm_, &state), "ncclCommGetAsyncError", comm_);
  api_->check(state, "a collective", comm_);
}

void NcclRank::give_up(const Error& cause) noexcept {
  if (!retired_.load(std::memory_order_acquire)) abort(cause);
}

}  // namespace amdahl
