// A rank of a team on a CUDA device: what kernels are launched with, and how their waits end.
#pragma once

#include <memory>
#include <string>

#include "device/cuda_device.h"
#include "symmetric/symmetric_memory.h"

namespace amdahl {

/// Keeps the memory of all ranks until this rank's kernels have ended. Its report is watched by the waits of the
/// device's streams: they throw Error{rank_hung} once a kernel has given up a wait.
class CudaTeam final : public StreamWatch {
 public:
  /// `what` a late rank did not reach, for the error. Allocates host memory, so that no kernel may wait meanwhile.
  static std::shared_ptr<CudaTeam> join(Device& device, const SymmetricMemory& memory, std::string what);
  CudaTeam(Device& device, const SymmetricMemory& memory, std::string what);
  /// Ends the waits of what the last used stream still runs, and lets it end (5 s at most).
  ~CudaTeam() override;
  CudaTeam(const CudaTeam&) = delete;
  CudaTeam& operator=(const CudaTeam&) = delete;

  const TeamView& view() const { return view_; }
  Device& device() { return device_; }
  /// The stream of a launch of this team; binds the calling thread to the device.
  cudaStream_t use(Stream& stream);

  void rethrow() override;
  void look() override {}
  void give_up(const Error&) noexcept override { end_waits(); }
  void end_waits() noexcept;

 private:
  Device& device_;
  const int index_;
  const SymmetricMemory memory_;
  const std::string what_;
  WaitReport* report_ = nullptr;
  TeamView view_{};
  cudaStream_t stream_ = nullptr;  // of the latest launch
};

}  // namespace amdahl
