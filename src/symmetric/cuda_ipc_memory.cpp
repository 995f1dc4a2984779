// Symmetric memory between processes that have a GPU each: every rank opens the regions of the others by CUDA IPC.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <set>

#include "device/cuda_check.h"
#include "symmetric/symmetric_memory.h"

namespace amdahl {
namespace {

/// An IPC handle is of the driver's whole block of memory, which small allocations share.
constexpr size_t kDriverBlock = size_t{2} << 20;

/// What a rank tells the others; plain data.
struct IpcOffer {
  cudaIpcMemHandle_t handle{};
  uint64_t bytes = 0;
  std::array<char, 48> gpu{};  // its UUID

  std::string text() const { return {reinterpret_cast<const char*>(this), sizeof(IpcOffer)}; }
  static IpcOffer of(const std::string& text) {
    IpcOffer offer;
    if (text.size() == sizeof offer) std::memcpy(static_cast<void*>(&offer), text.data(), sizeof offer);
    return offer;
  }
};

/// Another process's region.
class IpcMapping {
 public:
  IpcMapping(int device_index, const cudaIpcMemHandle_t& handle) : device_index_(device_index) {
    cuda_check(cudaIpcOpenMemHandle(&data_, handle, cudaIpcMemLazyEnablePeerAccess), device_index,
               "cudaIpcOpenMemHandle");
  }
  ~IpcMapping() {
    cudaSetDevice(device_index_);
    cudaIpcCloseMemHandle(data_);
  }
  IpcMapping(const IpcMapping&) = delete;
  IpcMapping& operator=(const IpcMapping&) = delete;
  char* data() const { return static_cast<char*>(data_); }

 private:
  const int device_index_;
  void* data_ = nullptr;
};

/// Error{environment_missing} on every rank when any has a `refusal`. Collective.
void agree_on_access(Communicator& communicator, const std::string& refusal, Deadline deadline) {
  const std::vector<std::string> all = communicator.exchange(refusal, deadline);
  for (size_t rank = 0; rank < all.size(); ++rank)
    if (!all[rank].empty())
      throw Error(Cause::environment_missing, fmt::format("symmetric memory: rank {}: {}", rank, all[rank]),
                  "GPUs of one host with peer access, one per process, or one process that drives all GPUs");
}

}  // namespace

SymmetricMemory make_cuda_ipc_memory(Device& device, Communicator& communicator, size_t bytes, double timeout_seconds) {
  const Deadline deadline = Deadline::after_seconds(timeout_seconds);
  const int index = device.spec().index;
  SymmetricMemory memory;
  memory.team = Team::first(communicator.world_size(), communicator.rank());
  memory.bytes = bytes;
  memory.timeout_seconds = timeout_seconds;
  memory.emulated = false;
  const std::shared_ptr<Buffer> own =
      allocate_zeroed(device, (std::max<size_t>(bytes, 1) + kDriverBlock - 1) / kDriverBlock * kDriverBlock, deadline);
  device.bind_thread();
  IpcOffer mine;
  mine.bytes = bytes;
  const std::string& uuid = device.spec().uuid;
  std::copy_n(uuid.begin(), std::min(uuid.size(), mine.gpu.size()), mine.gpu.begin());
  std::string refusal;
  if (const cudaError_t code = cudaIpcGetMemHandle(&mine.handle, own->data()); code != cudaSuccess) {
    cudaGetLastError();
    refusal = fmt::format("GPU {} exports no memory: {}", index, cudaGetErrorString(code));
  }
  std::vector<IpcOffer> offers;
  for (const std::string& text : communicator.exchange(mine.text(), deadline)) offers.push_back(IpcOffer::of(text));
  std::set<std::array<char, 48>> gpus;
  for (size_t rank = 0; rank < offers.size(); ++rank) {
    if (offers[rank].bytes != bytes)
      throw Error(Cause::collective_mismatch,
                  fmt::format("symmetric memory: rank {} has {} bytes, rank {} {}", memory.team.rank, bytes, rank,
                              offers[rank].bytes),
                  "the same size on every rank");
    if (!gpus.insert(offers[rank].gpu).second && refusal.empty())
      refusal = "two processes share a GPU, which does not run their kernels beside each other";
  }
  agree_on_access(communicator, refusal, deadline);
  for (size_t rank = 0; rank < offers.size() && refusal.empty(); ++rank) {
    if (rank == static_cast<size_t>(memory.team.rank)) {
      memory.base.push_back(own->as<char>());
      memory.owners.push_back(own);
      continue;
    }
    try {
      auto mapping = std::make_shared<IpcMapping>(index, offers[rank].handle);
      memory.base.push_back(mapping->data());
      memory.owners.push_back(std::move(mapping));
    } catch (const Error& error) {
      refusal = fmt::format("GPU {} does not reach the memory of rank {}: {}", index, rank, error.what());
    }
  }
  agree_on_access(communicator, refusal, deadline);
  return memory;
}

}  // namespace amdahl
