// CUDA behind device.h: what CUDA ops and NCCL need beyond the interface.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "device/device.h"

namespace amdahl {

/// Something whose failure invalidates or blocks a device's work: a communicator whose collectives its streams run.
/// Thread-safe.
class StreamWatch {
 public:
  virtual ~StreamWatch() = default;
  /// Throws the cause once the work is known to be lost. Called at every poll of a waiting stream: must be cheap.
  virtual void rethrow() = 0;
  /// Checks for asynchronous errors and dead peers and throws them. Called every few milliseconds of a wait.
  virtual void look() = 0;
  /// A wait for the work was abandoned: ends the work, so that its memory can be freed while the exception propagates.
  virtual void give_up(const Error& cause) noexcept = 0;
};

/// The watches of one device, held by weak references. Thread-safe.
class StreamWatches {
 public:
  void add(const std::shared_ptr<StreamWatch>& watch);
  void rethrow() const;
  void look() const;
  void give_up(const Error& cause) const;

 private:
  std::vector<std::shared_ptr<StreamWatch>> alive() const;
  mutable std::mutex mutex_;
  std::vector<std::weak_ptr<StreamWatch>> watches_;
};

// These throw Error{internal} for an object of another backend.
cudaStream_t as_cuda(Stream& stream);
StreamWatches& watches_of(Device& device);
bool is_capturing(Stream& stream);

/// "13.0", for MachineSpec; empty when unavailable.
std::string cuda_runtime_version();

}  // namespace amdahl
