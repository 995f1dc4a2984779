// Pinned bounce buffers of a CUDA device, which make small copies from and to pageable host memory asynchronous. The
// runtime itself waits for the stream, and so would wait forever behind a hung collective.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <mutex>

#include "device/cuda_device.h"

namespace amdahl {

/// After an abandoned wait, pending copies do not write to host memory any more, because the caller may have freed it.
class CudaStaging final : public StreamWatch {
 public:
  explicit CudaStaging(int device_index) : device_index_(device_index) {}
  ~CudaStaging() override;
  CudaStaging(const CudaStaging&) = delete;
  CudaStaging& operator=(const CudaStaging&) = delete;

  /// False when the copy is too large or every slot is in use: the caller then copies directly.
  bool copy_in(cudaStream_t stream, void* device_destination, const void* host_source, size_t bytes);
  bool copy_out(cudaStream_t stream, void* host_destination, const void* device_source, size_t bytes);

  void rethrow() override {}
  void look() override {}
  void give_up(const Error& cause) noexcept override;

 private:
  static constexpr size_t kSlotBytes = 256 << 10;
  struct Slot {
    std::atomic<bool> busy{false};  // cleared by the device's callback thread
    void* pinned = nullptr;
    std::mutex mutex;  // guards the destination
    void* host_destination = nullptr;
    size_t bytes = 0;
  };
  static void finish(void* slot);
  Slot* acquire(size_t bytes);

  int device_index_;
  std::array<Slot, 16> slots_;
};

}  // namespace amdahl
