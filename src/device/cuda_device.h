// CUDA behind device.h: what CUDA ops and NCCL need beyond the interface.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "device/device.h"

namespace amdahl {

/// Asked now and then while a host thread waits for a stream; throws when what the stream waits for will not come.
class StreamWatch {
 public:
  virtual ~StreamWatch() = default;
  virtual void check() = 0;
};

/// Why work of a stream is worthless although the device may finish it, such as an aborted collective. Any thread.
class StreamFault {
 public:
  /// The first cause stays; the stream's waits throw it from now on.
  void set(const Error& cause) noexcept;
  void rethrow() const;
  void add_watch(const std::shared_ptr<StreamWatch>& watch);
  void check_watches();

 private:
  std::atomic<bool> raised_{false};
  mutable std::mutex mutex_;
  std::optional<Error> cause_;
  std::vector<std::weak_ptr<StreamWatch>> watches_;
};

// These throw Error{internal} when handed an object of another backend.
cudaStream_t as_cuda(Stream& stream);
std::shared_ptr<StreamFault> fault_of(Stream& stream);
bool is_capturing(Stream& stream);

/// Versions for MachineSpec; empty when unavailable.
std::string cuda_driver_version();   // "580.159.04", by NVML
std::string cuda_runtime_version();  // "13.0"

}  // namespace amdahl
