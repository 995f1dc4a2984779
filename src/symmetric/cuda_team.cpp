#include "symmetric/cuda_team.h"

#include <cudaTypedefs.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "device/cuda_check.h"
#include "device/cuda_stream.h"

namespace amdahl {

namespace {

int gpu_of_memory(int device_index, const char* memory) {
  cudaPointerAttributes attributes{};
  cuda_check(cudaPointerGetAttributes(&attributes, memory), device_index, "cudaPointerGetAttributes");
  return attributes.device;
}

bool linked_with_atomics(int from, int to) {
  if (from == to) return true;
  int native = 0;
  cuda_check(cudaDeviceGetP2PAttribute(&native, cudaDevP2PAttrNativeAtomicSupported, from, to), from,
             "cudaDeviceGetP2PAttribute");
  return native != 0;
}

}  // namespace

bool has_native_atomics(int device_index, const char* memory) {
  return linked_with_atomics(device_index, gpu_of_memory(device_index, memory));
}

bool all_have_native_atomics(int device_index, const SymmetricMemory& memory) {
  std::vector<int> gpus;
  for (const char* base : memory.base) gpus.push_back(gpu_of_memory(device_index, base));
  for (const int from : gpus)
    for (const int to : gpus)
      if (!linked_with_atomics(from, to)) return false;
  return true;
}

bool is_open_to_peers(int device_index, const void* memory) {
  // Looked up by name: the binary is not linked with the driver's library.
  static const auto query = [] {
    constexpr int kDriver = 12000;
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
    const cudaError_t code =
        cudaGetDriverEntryPointByVersion("cuPointerGetAttribute", &found, kDriver, cudaEnableDefault, &result);
    if (code != cudaSuccess) cudaGetLastError();
    return reinterpret_cast<PFN_cuPointerGetAttribute_v4000>(found);
  }();
  constexpr uint64_t kMostAddress = uint64_t{1} << 48;
  if (memory == nullptr || query == nullptr || reinterpret_cast<uintptr_t>(memory) >= kMostAddress) return false;
  cudaPointerAttributes attributes{};
  if (cudaPointerGetAttributes(&attributes, memory) != cudaSuccess) {
    cudaGetLastError();
    return false;
  }
  if (attributes.type != cudaMemoryTypeDevice || attributes.device != device_index) return false;
  unsigned exportable = 0;  // the driver's boolean may be wider than a bool
  return query(&exportable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, reinterpret_cast<CUdeviceptr>(memory)) ==
             CUDA_SUCCESS &&
         exportable != 0;
}

/// The streams on which a team's kernels may run, but for those that have been destroyed. Thread-safe.
class UsedStreams {
 public:
  explicit UsedStreams(int device_index) : index_(device_index) {}

  static void add(const std::shared_ptr<UsedStreams>& used, CudaStream& stream) {
    const std::lock_guard lock(used->mutex_);
    std::vector<cudaStream_t>& all = used->streams_;
    if (std::find(all.begin(), all.end(), stream.handle()) != all.end()) return;
    all.push_back(stream.handle());
    if (stream.owned()) stream.attachment(used.get()) = std::make_shared<Departure>(used, stream.handle());
  }

  /// At most 5 s. Errors of the work are those of whoever synchronizes the streams.
  void wait_for_all() {
    const std::lock_guard lock(mutex_);
    for (cudaStream_t stream : streams_) wait_for(stream);
  }

 private:
  /// Attached to a stream: freed before the stream.
  struct Departure {
    Departure(std::shared_ptr<UsedStreams> from, cudaStream_t which) : used(std::move(from)), stream(which) {}
    Departure(const Departure&) = delete;
    Departure& operator=(const Departure&) = delete;
    ~Departure() {
      const std::lock_guard lock(used->mutex_);
      used->wait_for(stream);
      std::erase(used->streams_, stream);
    }
    const std::shared_ptr<UsedStreams> used;
    const cudaStream_t stream;
  };

  void wait_for(cudaStream_t stream) const {
    constexpr auto kPatience = std::chrono::seconds(5);
    const auto until = std::chrono::steady_clock::now() + kPatience;
    cudaSetDevice(index_);
    while (cudaStreamQuery(stream) == cudaErrorNotReady && std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    cudaGetLastError();
  }

  const int index_;
  std::mutex mutex_;
  std::vector<cudaStream_t> streams_;
};

std::shared_ptr<CudaTeam> CudaTeam::join(Device& device, const SymmetricMemory& memory, std::string what) {
  device.bind_thread();
  auto team = std::make_shared<CudaTeam>(device, memory, std::move(what));
  watches_of(device).add(team);
  return team;
}

CudaTeam::CudaTeam(Device& device, const SymmetricMemory& memory, std::string what)
    : device_(device),
      index_(device.spec().index),
      memory_(memory),
      what_(std::move(what)),
      streams_(std::make_shared<UsedStreams>(index_)) {
  check_team(memory_.team);
  void* report = nullptr;
  cuda_check(cudaHostAlloc(&report, sizeof(WaitReport), cudaHostAllocPortable | cudaHostAllocMapped), index_,
             "cudaHostAlloc");
  report_ = new (report) WaitReport{};
  view_ = memory_.view(report_);
}

CudaTeam::~CudaTeam() {
  end_waits();
  streams_->wait_for_all();
  cudaFreeHost(report_);
}

cudaStream_t CudaTeam::use(Stream& stream) {
  device_.bind_thread();
  UsedStreams::add(streams_, as_cuda_stream(stream));
  return as_cuda(stream);
}

void CudaTeam::rethrow() {
  const unsigned missing = std::atomic_ref(report_->missing_rank).load(std::memory_order_acquire);
  if (missing != 0) throw late_rank_error(memory_.team, static_cast<int>(missing) - 1, what_, memory_.timeout_seconds);
}

void CudaTeam::end_waits() noexcept { std::atomic_ref(report_->give_up).store(1, std::memory_order_release); }

}  // namespace amdahl
