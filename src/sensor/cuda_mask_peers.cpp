#include "sensor/cuda_mask_peers.h"

namespace amdahl {
namespace {

class CudaMaskPeers final : public MaskPeers {
 public:
  CudaMaskPeers(Device& device, const ChipLimits& limits, const MaskGroup& group)
      : device_(device),
        limits_(limits),
        group_(group),
        watch_(std::make_shared<PeerWatch>(device.spec().index, group.timeout_seconds, "a merge of bit masks")) {
    peers_.rank = group.rank, peers_.num_ranks = static_cast<int>(group.shared.size());
    for (size_t r = 0; r < group_.shared.size(); ++r) peers_.shared[r] = group_.shared[r]->as<MaskInbox>();
    peers_.num_voxels = group.num_voxels;
    peers_.report = watch_->report();
    peers_.timeout_ns = static_cast<uint64_t>(group.timeout_seconds * 1e9);
    watches_of(device).add(watch_);
  }
  // The others' memory, and the report, must outlive this rank's kernels.
  ~CudaMaskPeers() override { watch_->drain(device_.spec().index, stream_); }
  CudaMaskPeers(const CudaMaskPeers&) = delete;
  CudaMaskPeers& operator=(const CudaMaskPeers&) = delete;

  void merge(Stream& stream, const uint32_t* mask, int32_t* grid, uint32_t* merged) override {
    device_.bind_thread();
    stream_ = as_cuda(stream);
    const DeviceSpec& spec = device_.spec();
    launch_merge_peer_masks({stream_, spec.index, spec.sm_count, limits_}, peers_, mask, grid, merged);
  }

 private:
  Device& device_;
  ChipLimits limits_;
  MaskGroup group_;
  std::shared_ptr<PeerWatch> watch_;
  MaskLaunch peers_{};
  cudaStream_t stream_ = nullptr;
};

}  // namespace

size_t cuda_mask_peer_bytes(int64_t num_voxels, int world_size) {
  constexpr size_t kParities = 2, kPacketBytes = 16;
  return sizeof(MaskInbox) +
         kParities * static_cast<size_t>(world_size) * static_cast<size_t>(num_packets(num_voxels)) * kPacketBytes;
}

std::unique_ptr<MaskPeers> make_cuda_mask_peers(Device& device, const ChipLimits& limits, const MaskGroup& group) {
  return std::make_unique<CudaMaskPeers>(device, limits, group);
}

}  // namespace amdahl
