// How kernels that wait for other GPUs are ended: a report in host memory that both sides write, watched by the waits
// of the device's streams.
#pragma once

#include <cstdint>
#include <string>

#include "device/cuda_device.h"

namespace amdahl {

/// In host memory that kernels of every device reach.
struct PeerReport {
  unsigned give_up;       // set by the host: kernels end their waits
  unsigned missing_rank;  // set by the device: rank + 1 of one that did not come in time
};

class PeerWatch final : public StreamWatch {
 public:
  /// `what` a missing rank did not come to, for the error.
  PeerWatch(int device_index, double timeout_seconds, std::string what);
  ~PeerWatch() override;
  PeerWatch(const PeerWatch&) = delete;
  PeerWatch& operator=(const PeerWatch&) = delete;

  /// Error{rank_hung} once a kernel has given up.
  void rethrow() override;
  void look() override {}
  void give_up(const Error&) noexcept override { end_waits(); }
  void end_waits() noexcept;
  /// Ends the waits of what `stream` still runs, and lets it end: the memory of other ranks may then go.
  void drain(int device_index, cudaStream_t stream) noexcept;
  PeerReport* report() { return report_; }

 private:
  double timeout_seconds_;
  std::string what_;
  PeerReport* report_ = nullptr;
};

}  // namespace amdahl
