// A rank of a team on a CUDA device: the view that kernels receive, and the end of their waits.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "device/cuda_device.h"
#include "symmetric/symmetric_memory.h"

namespace amdahl {

/// Whether kernels of this GPU can access `memory`, of any GPU, with native atomics: over NVLink, or in its own memory.
bool has_native_atomics(int device_index, const char* memory);
/// The same between every two GPUs of the ranks; all ranks get the same answer.
bool all_have_native_atomics(int device_index, const SymmetricMemory& memory);

/// Whether GPUs that have access to this GPU's memory can access `memory`, which may be null or not of this GPU: memory
/// of cudaMalloc, which pools and mappings have rights of their own for.
bool is_open_to_peers(int device_index, const void* memory);

class UsedStreams;

/// Keeps the memory of all ranks alive until this rank's kernels have ended. Host waits on the device's streams watch
/// its report and throw Error{rank_hung} once a kernel has abandoned a wait. A stream of its launches that is destroyed
/// earlier first waits for them, at most 5 s; adopted streams (adopt_cuda_stream) must outlive it.
class CudaTeam final : public StreamWatch {
 public:
  /// `what`: the call that a missing rank did not reach, for the error. Allocates pinned host memory, which can block
  /// on running kernels: no kernel may be waiting for another rank meanwhile.
  static std::shared_ptr<CudaTeam> join(Device& device, const SymmetricMemory& memory, std::string what);
  CudaTeam(Device& device, const SymmetricMemory& memory, std::string what);
  /// Ends the waits of kernels on the used streams and waits for them, at most 5 s.
  ~CudaTeam() override;
  CudaTeam(const CudaTeam&) = delete;
  CudaTeam& operator=(const CudaTeam&) = delete;

  const TeamView& view() const { return view_; }
  Device& device() { return device_; }
  /// The stream for a launch; also binds the calling thread to the device.
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
  const std::shared_ptr<UsedStreams> streams_;  // of launches
};

}  // namespace amdahl
