#include "symmetric/cuda_team.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

#include "device/cuda_check.h"

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

std::shared_ptr<CudaTeam> CudaTeam::join(Device& device, const SymmetricMemory& memory, std::string what) {
  device.bind_thread();
  auto team = std::make_shared<CudaTeam>(device, memory, std::move(what));
  watches_of(device).add(team);
  return team;
}

CudaTeam::CudaTeam(Device& device, const SymmetricMemory& memory, std::string what)
    : device_(device), index_(device.spec().index), memory_(memory), what_(std::move(what)) {
  check_team(memory_.team);
  void* report = nullptr;
  cuda_check(cudaHostAlloc(&report, sizeof(WaitReport), cudaHostAllocPortable | cudaHostAllocMapped), index_,
             "cudaHostAlloc");
  report_ = new (report) WaitReport{};
  view_ = memory_.view(report_);
}

CudaTeam::~CudaTeam() {
  constexpr auto kPatience = std::chrono::seconds(5);
  end_waits();
  cudaSetDevice(index_);
  const auto until = std::chrono::steady_clock::now() + kPatience;
  for (cudaStream_t stream : streams_)
    while (cudaStreamQuery(stream) == cudaErrorNotReady && std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(std::chrono::microseconds(50));
  cudaGetLastError();
  cudaFreeHost(report_);
}

cudaStream_t CudaTeam::use(Stream& stream) {
  device_.bind_thread();
  cudaStream_t used = as_cuda(stream);
  if (std::find(streams_.begin(), streams_.end(), used) == streams_.end()) streams_.push_back(used);
  return used;
}

void CudaTeam::rethrow() {
  const unsigned missing = std::atomic_ref(report_->missing_rank).load(std::memory_order_acquire);
  if (missing != 0) throw late_rank_error(memory_.team, static_cast<int>(missing) - 1, what_, memory_.timeout_seconds);
}

void CudaTeam::end_waits() noexcept { std::atomic_ref(report_->give_up).store(1, std::memory_order_release); }

}  // namespace amdahl
