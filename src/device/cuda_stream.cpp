#include "device/cuda_stream.h"

#include <fmt/format.h>

#include <chrono>
#include <thread>
#include <utility>

#include "device/cuda_check.h"

namespace amdahl {
namespace {

// Short waits spin, because waking from a sleep takes longer than a training step; long waits sleep.
constexpr auto kSpin = std::chrono::microseconds(50);
constexpr auto kSleep = std::chrono::microseconds(20);
constexpr auto kLookInterval = std::chrono::milliseconds(2);

template <class To, class From>
To& cast(From& object, const char* what) {
  auto* result = dynamic_cast<To*>(&object);
  if (!result) throw Error(Cause::internal, fmt::format("{} of another backend was handed to CUDA code", what));
  return *result;
}

}  // namespace

CudaEvent::CudaEvent(int device_index) : device_index_(device_index) {
  cuda_check(cudaEventCreateWithFlags(&event_, cudaEventDefault), device_index, "cudaEventCreateWithFlags");
}

bool CudaEvent::done() const {
  const cudaError_t code = cudaEventQuery(event_);
  if (code == cudaErrorNotReady) {
    cudaGetLastError();
    return false;
  }
  cuda_check(code, device_index_, "cudaEventQuery");
  return true;
}

CudaStream::CudaStream(Device& device, const StreamWatches& watches, std::string name,
                       std::shared_ptr<const CudaPartition> partition)
    : device_(device),
      watches_(watches),
      index_(device.spec().index),
      name_(std::move(name)),
      partition_(std::move(partition)) {
  int lowest = 0, highest = 0;
  cuda_check(cudaDeviceGetStreamPriorityRange(&lowest, &highest), index_, "cudaDeviceGetStreamPriorityRange");
  const int priority = name_.rfind("comm", 0) == 0 ? highest : lowest;
  if (partition_) {
    stream_ = partition_->make_stream(priority);
    return;
  }
  cuda_check(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, priority), index_,
             "cudaStreamCreateWithPriority");
}

CudaStream::CudaStream(Device& device, const StreamWatches& watches, cudaStream_t adopted)
    : device_(device),
      watches_(watches),
      index_(device.spec().index),
      name_("adopted"),
      stream_(adopted),
      owned_(false) {}

std::unique_ptr<Stream> adopt_cuda_stream(Device& device, void* stream) {
  return std::make_unique<CudaStream>(device, watches_of(device), static_cast<cudaStream_t>(stream));
}

void CudaStream::record(Event& event) {
  device_.bind_thread();
  cuda_check(cudaEventRecord(as_cuda(event), stream_), index_, "cudaEventRecord");
}

void CudaStream::stamp(Event& event) {
  device_.bind_thread();
  const unsigned flags = capturing() ? cudaEventRecordExternal : cudaEventRecordDefault;
  cuda_check(cudaEventRecordWithFlags(as_cuda(event), stream_, flags), index_, "cudaEventRecordWithFlags");
}

void CudaStream::wait(Event& event) {
  device_.bind_thread();
  cuda_check(cudaStreamWaitEvent(stream_, as_cuda(event), cudaEventWaitDefault), index_, "cudaStreamWaitEvent");
}

bool CudaStream::capturing() const {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  cuda_check(cudaStreamIsCapturing(stream_, &status), index_, "cudaStreamIsCapturing");
  return status != cudaStreamCaptureStatusNone;
}

void CudaStream::synchronize(Deadline deadline) {
  device_.bind_thread();
  try {
    wait_until_done(deadline);
  } catch (const Error& error) {
    watches_.give_up(error);
    throw;
  }
}

void CudaStream::wait_until_done(Deadline deadline) {
  const auto begin = Deadline::Clock::now();
  auto next_look = begin + kLookInterval;
  device_.throw_if_stopped();
  for (;;) {
    const cudaError_t code = cudaStreamQuery(stream_);
    watches_.rethrow();  // before success is reported: an aborted collective ends its kernels with invalid results
    if (code != cudaErrorNotReady) return cuda_check(code, index_, "cudaStreamQuery");
    cudaGetLastError();  // clears cudaErrorNotReady as the last error
    const auto now = Deadline::Clock::now();
    if (now >= deadline.time())
      throw Error(Cause::rank_hung,
                  fmt::format("stream \"{}\" of GPU {} did not finish before its deadline", name_, index_),
                  "look for a rank that never arrived; if the work is only slow, allow more time");
    if (now >= next_look) {
      device_.throw_if_stopped();
      watches_.look();
      next_look = now + kLookInterval;
    }
    if (now - begin > kSpin) std::this_thread::sleep_for(kSleep);
  }
}

CudaGraph::CudaGraph(Device& device, cudaGraph_t graph) : device_(device), index_(device.spec().index), graph_(graph) {
  try {
    // The nodes keep the priority of the comm stream that they were captured from.
    cuda_check(cudaGraphInstantiate(&executable_, graph_, cudaGraphInstantiateFlagUseNodePriority), index_,
               "cudaGraphInstantiate");
    cuda_check(cudaGraphGetNodes(graph_, nullptr, &num_nodes_), index_, "cudaGraphGetNodes");
  } catch (...) {
    release();
    throw;
  }
}

void CudaGraph::release() {
  if (executable_) cudaGraphExecDestroy(executable_);
  cudaGraphDestroy(graph_);
}

void CudaGraph::launch(Stream& stream) {
  device_.bind_thread();
  cuda_check(cudaGraphLaunch(executable_, as_cuda(stream)), index_, "cudaGraphLaunch");
}

void CudaGraph::upload(cudaStream_t stream) {
  cuda_check(cudaGraphUpload(executable_, stream), index_, "cudaGraphUpload");
}

void StreamWatches::add(const std::shared_ptr<StreamWatch>& watch) {
  std::lock_guard lock(mutex_);
  std::erase_if(watches_, [](const auto& entry) { return entry.expired(); });
  watches_.push_back(watch);
}

std::vector<std::shared_ptr<StreamWatch>> StreamWatches::alive() const {
  std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<StreamWatch>> watches;
  for (const auto& entry : watches_)
    if (auto watch = entry.lock()) watches.push_back(std::move(watch));
  return watches;
}

void StreamWatches::rethrow() const {
  for (const auto& watch : alive()) watch->rethrow();
}

void StreamWatches::look() const {
  for (const auto& watch : alive()) watch->look();
}

void StreamWatches::give_up(const Error& cause) const {
  for (const auto& watch : alive()) watch->give_up(cause);
}

CudaStream& as_cuda_stream(Stream& stream) { return cast<CudaStream>(stream, "a stream"); }
cudaEvent_t as_cuda(const Event& event) { return cast<const CudaEvent>(event, "an event").handle(); }
cudaStream_t as_cuda(Stream& stream) { return as_cuda_stream(stream).handle(); }
bool is_capturing(Stream& stream) { return as_cuda_stream(stream).capturing(); }

}  // namespace amdahl
