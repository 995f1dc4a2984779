// What a rank's end of merging through peers' memory has on the host.
#pragma once

#include <type_traits>

#include "device/cuda_peer_watch.h"
#include "sensor/cuda_kernels.h"

namespace amdahl {

/// Launches on the rank's device, and the watch that ends the waits of its kernels: before the memory of other ranks
/// goes, which outlives this.
class CudaPeerSide {
 public:
  /// `what` a missing rank did not come to.
  CudaPeerSide(Device& device, const ChipLimits& limits, double timeout_seconds, std::string what)
      : device_(device),
        limits_(limits),
        timeout_seconds_(timeout_seconds),
        watch_(std::make_shared<PeerWatch>(device.spec().index, timeout_seconds, std::move(what))) {
    watches_of(device).add(watch_);
  }
  ~CudaPeerSide() { watch_->drain(device_.spec().index, stream_); }
  CudaPeerSide(const CudaPeerSide&) = delete;
  CudaPeerSide& operator=(const CudaPeerSide&) = delete;

  SensorLaunch on(Stream& stream) {
    device_.bind_thread();
    stream_ = as_cuda(stream);
    return {stream_, device_.spec().index, device_.spec().sm_count, limits_};
  }
  /// Says in a launch's arguments which rank of the group this is, where all have their memory, and how long to wait
  /// for one.
  template <class Launch, class Group>
  void introduce(const Group& group, Launch& launch) const {
    using Shared = std::remove_pointer_t<std::remove_extent_t<decltype(launch.shared)>>;
    launch.rank = group.rank, launch.num_ranks = static_cast<int>(group.shared.size());
    for (size_t r = 0; r < group.shared.size(); ++r) launch.shared[r] = group.shared[r]->template as<Shared>();
    launch.report = watch_->report(), launch.timeout_ns = static_cast<uint64_t>(timeout_seconds_ * 1e9);
  }

 private:
  Device& device_;
  ChipLimits limits_;
  double timeout_seconds_;
  std::shared_ptr<PeerWatch> watch_;
  cudaStream_t stream_ = nullptr;
};

}  // namespace amdahl
