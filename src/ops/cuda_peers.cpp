#include "ops/cuda_peers.h"

#include <fmt/format.h>

#include "device/cuda_check.h"
#include "device/cuda_device.h"

namespace amdahl {
namespace {

class CudaPeerUpdater final : public PeerUpdater {
 public:
  CudaPeerUpdater(Device& device, const PeerGroup& group)
      : device_(device),
        group_(group),
        watch_(std::make_shared<PeerWatch>(device.spec().index, group.timeout_seconds, "an update of parameters")) {
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
  ~CudaPeerUpdater() override { watch_->drain(device_.spec().index, stream_); }

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
