// CUDA behind device.h: what CUDA ops and NCCL need beyond the interface.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "device/device.h"

namespace amdahl {

/// What may make a device's work worthless or endless: a communicator whose collectives its streams run. Any thread.
class StreamWatch {
 public:
  virtual ~StreamWatch() = default;
  /// Throws the cause once the work is known to be lost. Cheap: asked at every poll of a waiting stream.
  virtual void rethrow() = 0;
  /// Looks for news (asynchronous errors, dead peers) and throws them. Asked every few milliseconds of a wait.
  virtual void look() = 0;
};

/// The watches of one device. A watch lives as long as its owner keeps it.
class StreamWatches {
 public:
  void add(const std::shared_ptr<StreamWatch>& watch);
  void rethrow() const { visit(&StreamWatch::rethrow); }
  void look() const { visit(&StreamWatch::look); }

 private:
  void visit(void (StreamWatch::*question)()) const;
  mutable std::mutex mutex_;
  std::vector<std::weak_ptr<StreamWatch>> watches_;
};

// These throw Error{internal} when handed an object of another backend.
cudaStream_t as_cuda(Stream& stream);
StreamWatches& watches_of(Device& device);
bool is_capturing(Stream& stream);

/// Versions for MachineSpec; empty when unavailable.
std::string cuda_driver_version();   // "580.159.04", by NVML
std::string cuda_runtime_version();  // "13.0"

}  // namespace amdahl
