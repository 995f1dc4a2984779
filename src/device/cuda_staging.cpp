#include "device/cuda_staging.h"

#include <cstring>

#include "device/cuda_check.h"

namespace amdahl {

CudaStaging::~CudaStaging() {
  for (Slot& slot : slots_)
    if (slot.pinned) cudaFreeHost(slot.pinned);
}

CudaStaging::Slot* CudaStaging::acquire(size_t bytes) {
  if (bytes > kSlotBytes) return nullptr;
  for (Slot& slot : slots_) {
    if (slot.busy.exchange(true)) continue;
    if (!slot.pinned && cudaMallocHost(&slot.pinned, kSlotBytes) != cudaSuccess) {
      cudaGetLastError();
      slot.pinned = nullptr;
      slot.busy = false;
      return nullptr;
    }
    slot.bytes = bytes;
    return &slot;
  }
  return nullptr;
}

// Runs on a thread of the CUDA driver: no CUDA calls here.
void CudaStaging::finish(void* slot_pointer) {
  Slot& slot = *static_cast<Slot*>(slot_pointer);
  {
    std::lock_guard lock(slot.mutex);
    if (slot.host_destination) std::memcpy(slot.host_destination, slot.pinned, slot.bytes);
    slot.host_destination = nullptr;
  }
  slot.busy.store(false, std::memory_order_release);
}

void CudaStaging::give_up(const Error&) noexcept {
  for (Slot& slot : slots_) {
    std::lock_guard lock(slot.mutex);
    slot.host_destination = nullptr;
  }
}

bool CudaStaging::copy_in(cudaStream_t stream, void* device_destination, const void* host_source, size_t bytes) {
  Slot* slot = acquire(bytes);
  if (!slot) return false;
  std::memcpy(slot->pinned, host_source, bytes);
  cuda_check(cudaMemcpyAsync(device_destination, slot->pinned, bytes, cudaMemcpyHostToDevice, stream), device_index_,
             "cudaMemcpyAsync");
  cuda_check(cudaLaunchHostFunc(stream, &CudaStaging::finish, slot), device_index_, "cudaLaunchHostFunc");
  return true;
}

bool CudaStaging::copy_out(cudaStream_t stream, void* host_destination, const void* device_source, size_t bytes) {
  Slot* slot = acquire(bytes);
  if (!slot) return false;
  {
    std::lock_guard lock(slot->mutex);
    slot->host_destination = host_destination;
  }
  cuda_check(cudaMemcpyAsync(slot->pinned, device_source, bytes, cudaMemcpyDeviceToHost, stream), device_index_,
             "cudaMemcpyAsync");
  cuda_check(cudaLaunchHostFunc(stream, &CudaStaging::finish, slot), device_index_, "cudaLaunchHostFunc");
  return true;
}

}  // namespace amdahl
