#include "ops/cuda_peers.h"

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "device/cuda_check.h"
#include "device/cuda_device.h"

namespace amdahl {
namespace {

constexpr auto kDrainPatience = std::chrono::seconds(5);

/// The report in pinned memory, as the waits of this device's streams see it.
class PeerWatch final : public StreamWatch {
 public:
  PeerWatch(int device_index, double timeout_seconds) : timeout_seconds_(timeout_seconds) {
    void* memory = nullptr;
    cuda_check(cudaHostAlloc(&memory, sizeof(PeerReport), cudaHostAllocPortable | cudaHostAllocMapped), device_index,
               "cudaHostAlloc");
    report_ = new (memory) PeerReport{};
  }
  ~PeerWatch() override { cudaFreeHost(report_); }
  PeerWatch(const PeerWatch&) = delete;
  PeerWatch& operator=(const PeerWatch&) = delete;

  void rethrow() override {
    const unsigned missing = std::atomic_ref(report_->missing_rank).load(std::memory_order_acquire);
    if (missing == 0) return;
    const int rank = static_cast<int>(missing) - 1;
    throw Error(Cause::rank_hung,
                fmt::format("rank {} did not come to an update of parameters within {:g} s", rank, timeout_seconds_),
                "look at what that rank is doing, or raise --timeout if it is only slow", rank);
  }
  void look() override {}
  void give_up(const Error&) noexcept override { end_waits(); }
  void end_waits() noexcept { std::atomic_ref(report_->give_up).store(1, std::memory_order_release); }
  PeerReport* report() { return report_; }

 private:
  double timeout_seconds_;
  PeerReport* report_ = nullptr;
};

class CudaPeerUpdater final : public PeerUpdater {
 public:
  CudaPeerUpdater(Device& device, const PeerGroup& group)
      : device_(device),
        group_(group),
        watch_(std::make_shared<PeerWatch>(device.spec().index, group.timeout_seconds)) {
    peers_.rank = group.rank;
    peers_.num_ranks = static_cast<int>(group.ranks.size());
    if (peers_.num_ranks > kMaxPeers)
      throw Error(Cause::internal, fmt::format("a group of {} peers", peers_.num_ranks));
    for (size_t r = 0; r < group_.ranks.size(); ++r) {
      peers_.params[r] = group_.ranks[r].params->as<float>();
      peers_.grads[r] = group_.ranks[r].grads->as<float>();
      peers_.flags[r] = group_.ranks[r].flags->as<PeerFlags>();
    }
    peers_.report = watch_->report();
    peers_.timeout_ns = static_cast<uint64_t>(group.timeout_seconds * 1e9);
    watches_of(device).add(watch_);
  }

  // The others' memory, and the report, must outlive this rank's kernels. On an orderly end they are done already.
  ~CudaPeerUpdater() override {
    watch_->end_waits();
    cudaSetDevice(device_.spec().index);
    const auto patience = std::chrono::steady_clock::now() + kDrainPatience;
    while (stream_ && cudaStreamQuery(stream_) == cudaErrorNotReady && std::chrono::steady_clock::now() < patience)
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    cudaGetLastError();
  }

  void adam(Stream& stream, const PeerAdam& update) override {
    device_.bind_thread();
    stream_ = as_cuda(stream);
    launch_peer_adam({stream_, device_.spec().index, device_.spec().sm_count, false, {}}, peers_, update);
  }

 private:
  Device& device_;
  PeerGroup group_;  // keeps the memory of all ranks
  std::shared_ptr<PeerWatch> watch_;
  PeerLaunch peers_{};
  cudaStream_t stream_ = nullptr;  // of the latest update
};

}  // namespace

std::unique_ptr<PeerUpdater> make_cuda_peer_updater(Device& device, const PeerGroup& group) {
  device.bind_thread();
  return std::make_unique<CudaPeerUpdater>(device, group);
}

}  // namespace amdahl
