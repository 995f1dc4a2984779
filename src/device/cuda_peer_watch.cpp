#include "device/cuda_peer_watch.h"

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "device/cuda_check.h"

namespace amdahl {

PeerWatch::PeerWatch(int device_index, double timeout_seconds, std::string what)
    : timeout_seconds_(timeout_seconds), what_(std::move(what)) {
  void* memory = nullptr;
  cuda_check(cudaHostAlloc(&memory, sizeof(PeerReport), cudaHostAllocPortable | cudaHostAllocMapped), device_index,
             "cudaHostAlloc");
  report_ = new (memory) PeerReport{};
}

PeerWatch::~PeerWatch() { cudaFreeHost(report_); }

void PeerWatch::rethrow() {
  const unsigned missing = std::atomic_ref(report_->missing_rank).load(std::memory_order_acquire);
  if (missing == 0) return;
  const int rank = static_cast<int>(missing) - 1;
  throw Error(Cause::rank_hung, fmt::format("rank {} did not reach {} within {:g} s", rank, what_, timeout_seconds_),
              "look at what that rank is doing, or raise `timeout_seconds` if it is only slow", rank);
}

void PeerWatch::end_waits() noexcept { std::atomic_ref(report_->give_up).store(1, std::memory_order_release); }

void PeerWatch::drain(int device_index, cudaStream_t stream) noexcept {
  constexpr auto kPatience = std::chrono::seconds(5);
  end_waits();
  cudaSetDevice(device_index);
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (stream && cudaStreamQuery(stream) == cudaErrorNotReady && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  cudaGetLastError();
}

}  // namespace amdahl
