#include "device/cuda_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>
#include <utility>

#include "device/cuda_check.h"
#include "device/cuda_staging.h"
#include "device/nvml.h"

namespace amdahl {
namespace {

using Clock = std::chrono::steady_clock;
constexpr size_t kAlignment = 256;
// Short waits spin, because waking from a sleep costs more than a training step; long ones leave the core to others.
constexpr auto kSpin = std::chrono::microseconds(50);
constexpr auto kSleep = std::chrono::microseconds(20);
constexpr auto kWatchInterval = std::chrono::milliseconds(2);

size_t round_up(size_t bytes) { return std::max(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment); }

class CudaEvent final : public Event {
 public:
  explicit CudaEvent(int device_index) : device_index_(device_index) {
    cuda_check(cudaEventCreateWithFlags(&event_, cudaEventDefault), device_index, "cudaEventCreateWithFlags");
  }
  ~CudaEvent() override { cudaEventDestroy(event_); }
  bool done() const override {
    const cudaError_t code = cudaEventQuery(event_);
    if (code == cudaErrorNotReady) {
      cudaGetLastError();
      return false;
    }
    cuda_check(code, device_index_, "cudaEventQuery");
    return true;
  }
  cudaEvent_t handle() const { return event_; }

 private:
  int device_index_;
  cudaEvent_t event_ = nullptr;
};

template <class To, class From>
To& cast(From& object, const char* what) {
  auto* result = dynamic_cast<To*>(&object);
  if (!result) throw Error(Cause::internal, fmt::format("a {} of another backend was handed to a CUDA device", what));
  return *result;
}

cudaEvent_t handle_of(const Event& event) { return cast<const CudaEvent>(event, "event").handle(); }

class CudaStream final : public Stream {
 public:
  CudaStream(Device& device, int device_index, std::string name) : device_(device), index_(device_index), name_(std::move(name)) {
    int lowest = 0, highest = 0;
    cuda_check(cudaDeviceGetStreamPriorityRange(&lowest, &highest), index_, "cudaDeviceGetStreamPriorityRange");
    const int priority = name_.rfind("comm", 0) == 0 ? highest : lowest;
    cuda_check(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, priority), index_,
               "cudaStreamCreateWithPriority");
  }
  ~CudaStream() override { cudaStreamDestroy(stream_); }

  Device& device() override { return device_; }
  void record(Event& event) override {
    device_.bind_thread();
    cuda_check(cudaEventRecord(handle_of(event), stream_), index_, "cudaEventRecord");
  }
  void stamp(Event& event) override {
    device_.bind_thread();
    const unsigned flags = capturing() ? cudaEventRecordExternal : cudaEventRecordDefault;
    cuda_check(cudaEventRecordWithFlags(handle_of(event), stream_, flags), index_, "cudaEventRecordWithFlags");
  }
  void wait(Event& event) override {
    device_.bind_thread();
    cuda_check(cudaStreamWaitEvent(stream_, handle_of(event), cudaEventWaitDefault), index_, "cudaStreamWaitEvent");
  }
  void synchronize(Deadline deadline) override;

  bool capturing() const {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    cuda_check(cudaStreamIsCapturing(stream_, &status), index_, "cudaStreamIsCapturing");
    return status != cudaStreamCaptureStatusNone;
  }
  cudaStream_t handle() const { return stream_; }
  const std::shared_ptr<StreamFault>& fault() const { return fault_; }

 private:
  Device& device_;
  int index_;
  std::string name_;
  cudaStream_t stream_ = nullptr;
  std::shared_ptr<StreamFault> fault_ = std::make_shared<StreamFault>();
};

void CudaStream::synchronize(Deadline deadline) {
  device_.bind_thread();
  const auto begin = Clock::now();
  auto next_watch = begin + kWatchInterval;
  for (;;) {
    fault_->rethrow();
    const cudaError_t code = cudaStreamQuery(stream_);
    if (code != cudaErrorNotReady) {
      fault_->rethrow();
      cuda_check(code, index_, "cudaStreamQuery");
      return;
    }
    cudaGetLastError();  // "not ready" stays behind as the last error otherwise
    const auto now = Clock::now();
    if (now >= deadline.time())
      throw Error(Cause::rank_hung, fmt::format("stream \"{}\" of GPU {} did not finish before its deadline", name_, index_),
                  "a rank that never arrived, or a deadline that is too short for this work");
    if (now >= next_watch) {
      fault_->check_watches();
      next_watch = now + kWatchInterval;
    }
    if (now - begin > kSpin) std::this_thread::sleep_for(kSleep);
  }
}

class CudaGraph final : public Graph {
 public:
  CudaGraph(Device& device, int device_index, cudaGraph_t graph) : device_(device), index_(device_index), graph_(graph) {
    try {
      // The comm stream's priority lives on in the nodes that were captured from it.
      cuda_check(cudaGraphInstantiate(&executable_, graph_, cudaGraphInstantiateFlagUseNodePriority), index_,
                 "cudaGraphInstantiate");
      cuda_check(cudaGraphGetNodes(graph_, nullptr, &num_nodes_), index_, "cudaGraphGetNodes");
    } catch (...) {
      release();
      throw;
    }
  }
  ~CudaGraph() override { release(); }
  void launch(Stream& stream) override {
    device_.bind_thread();
    cuda_check(cudaGraphLaunch(executable_, as_cuda(stream)), index_, "cudaGraphLaunch");
  }
  size_t num_nodes() const override { return num_nodes_; }
  void upload(cudaStream_t stream) { cuda_check(cudaGraphUpload(executable_, stream), index_, "cudaGraphUpload"); }

 private:
  void release() {
    if (executable_) cudaGraphExecDestroy(executable_);
    cudaGraphDestroy(graph_);
  }
  Device& device_;
  int index_;
  cudaGraph_t graph_;
  cudaGraphExec_t executable_ = nullptr;
  size_t num_nodes_ = 0;
};

/// Bytes in use, shared with the buffers because a buffer may be freed on another thread.
struct Account {
  std::atomic<size_t> now{0}, peak{0};
  void add(size_t bytes) {
    const size_t total = now.fetch_add(bytes) + bytes;
    size_t seen = peak.load();
    while (total > seen && !peak.compare_exchange_weak(seen, total)) {
    }
  }
};

class CudaBuffer final : public Buffer {
 public:
  CudaBuffer(int device_index, size_t bytes, std::shared_ptr<Account> account)
      : index_(device_index), bytes_(bytes), account_(std::move(account)) {
    const cudaError_t code = cudaMalloc(&data_, round_up(bytes));
    if (code == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      size_t free = 0, total = 0;
      cudaMemGetInfo(&free, &total);
      throw Error(Cause::out_of_memory,
                  fmt::format("GPU {} has no room for {} bytes: {} of {} bytes are free", index_, round_up(bytes), free, total),
                  "a smaller model or batch, more GPUs, or ending other programs on this GPU");
    }
    cuda_check(code, index_, "cudaMalloc");
    account_->add(round_up(bytes));
  }
  ~CudaBuffer() override {
    cudaSetDevice(index_);
    cudaFree(data_);
    account_->now -= round_up(bytes_);
  }
  void* data() override { return data_; }
  size_t bytes() const override { return bytes_; }

 private:
  int index_;
  size_t bytes_;
  std::shared_ptr<Account> account_;
  void* data_ = nullptr;
};

std::string format_uuid(const cudaUUID_t& uuid) {
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(uuid.bytes[i]));
  }
  return text;
}

DeviceSpec read_spec(int index) {
  cudaDeviceProp properties{};
  cuda_check(cudaGetDeviceProperties(&properties, index), index, "cudaGetDeviceProperties");
  DeviceSpec spec;
  spec.index = index;
  spec.kind = "cuda";
  spec.name = properties.name;
  spec.uuid = format_uuid(properties.uuid);
  spec.memory_bytes = static_cast<int64_t>(properties.totalGlobalMem);
  spec.sm_count = properties.multiProcessorCount;
  spec.compute_capability = fmt::format("{}.{}", properties.major, properties.minor);
  return spec;
}

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(int index) : spec_(read_spec(index)), staging_(index), nvml_(Nvml::open()) {
    bind_thread();
    cuda_check(cudaFree(nullptr), index, "cudaFree");  // creates the context now, not inside a measurement
    std::array<char, 32> pci{};
    if (nvml_ && cudaDeviceGetPCIBusId(pci.data(), pci.size(), index) == cudaSuccess)
      nvml_device_ = nvml_->find_device(pci.data());
  }

  BackendKind backend() const override { return BackendKind::cuda; }
  const DeviceSpec& spec() const override { return spec_; }
  std::unique_ptr<Stream> make_stream(const std::string& name) override {
    bind_thread();
    return std::make_unique<CudaStream>(*this, spec_.index, name);
  }
  std::unique_ptr<Event> make_event() override {
    bind_thread();
    return std::make_unique<CudaEvent>(spec_.index);
  }
  double elapsed_us(const Event& start, const Event& end) override {
    float milliseconds = 0;
    cuda_check(cudaEventElapsedTime(&milliseconds, handle_of(start), handle_of(end)), spec_.index, "cudaEventElapsedTime");
    return milliseconds * 1e3;
  }

  std::unique_ptr<Buffer> allocate(size_t bytes) override {
    bind_thread();
    return std::make_unique<CudaBuffer>(spec_.index, bytes, account_);
  }
  size_t allocated_bytes() const override { return account_->now; }
  size_t peak_allocated_bytes() const override { return account_->peak; }
  void reset_peak() override { account_->peak = account_->now.load(); }

  void copy_in(Stream& stream, void* device_destination, const void* host_source, size_t bytes) override {
    if (bytes == 0) return;
    bind_thread();
    CudaStream& queue = cast<CudaStream>(stream, "stream");
    if (!queue.capturing() && staging_.copy_in(queue.handle(), device_destination, host_source, bytes)) return;
    copy(queue, device_destination, host_source, bytes, cudaMemcpyHostToDevice);
  }
  void copy_out(Stream& stream, void* host_destination, const void* device_source, size_t bytes) override {
    if (bytes == 0) return;
    bind_thread();
    CudaStream& queue = cast<CudaStream>(stream, "stream");
    if (!queue.capturing() && staging_.copy_out(queue.handle(), host_destination, device_source, bytes)) return;
    copy(queue, host_destination, device_source, bytes, cudaMemcpyDeviceToHost);
  }
  void copy_within(Stream& stream, void* destination, const void* source, size_t bytes) override {
    if (bytes == 0) return;
    bind_thread();
    copy(cast<CudaStream>(stream, "stream"), destination, source, bytes, cudaMemcpyDeviceToDevice);
  }
  void fill_zero(Stream& stream, void* destination, size_t bytes) override {
    if (bytes == 0) return;
    bind_thread();
    cuda_check(cudaMemsetAsync(destination, 0, bytes, as_cuda(stream)), spec_.index, "cudaMemsetAsync");
  }

  Feasibility supports_graphs() const override { return {}; }
  std::unique_ptr<Graph> capture(Stream& origin, const std::function<void()>& enqueue) override;

  void bind_thread() override { cuda_check(cudaSetDevice(spec_.index), spec_.index, "cudaSetDevice"); }
  DeviceHealth health() override { return nvml_ ? nvml_->read_health(nvml_device_) : DeviceHealth{}; }

 private:
  void copy(CudaStream& stream, void* destination, const void* source, size_t bytes, cudaMemcpyKind kind) {
    cuda_check(cudaMemcpyAsync(destination, source, bytes, kind, stream.handle()), spec_.index, "cudaMemcpyAsync");
  }

  DeviceSpec spec_;
  std::shared_ptr<Account> account_ = std::make_shared<Account>();
  CudaStaging staging_;
  std::shared_ptr<Nvml> nvml_;
  void* nvml_device_ = nullptr;
};

std::unique_ptr<Graph> CudaDevice::capture(Stream& origin, const std::function<void()>& enqueue) {
  bind_thread();
  cudaStream_t stream = as_cuda(origin);
  // Thread-local: other ranks' threads may allocate or synchronize meanwhile.
  cuda_check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), spec_.index, "cudaStreamBeginCapture");
  cudaGraph_t graph = nullptr;
  try {
    enqueue();
  } catch (...) {
    cudaStreamEndCapture(stream, &graph);
    if (graph) cudaGraphDestroy(graph);
    cudaGetLastError();
    throw;
  }
  bind_thread();
  cuda_check(cudaStreamEndCapture(stream, &graph), spec_.index, "cudaStreamEndCapture");
  auto captured = std::make_unique<CudaGraph>(*this, spec_.index, graph);
  captured->upload(stream);
  return captured;
}

}  // namespace

void StreamFault::set(const Error& cause) noexcept {
  try {
    std::lock_guard lock(mutex_);
    if (!cause_) cause_.emplace(cause);
    raised_.store(true, std::memory_order_release);
  } catch (...) {  // a cause that cannot be copied or locked: the stream then ends by its deadline
  }
}

void StreamFault::rethrow() const {
  if (!raised_.load(std::memory_order_acquire)) return;
  std::lock_guard lock(mutex_);
  throw *cause_;
}

void StreamFault::add_watch(const std::shared_ptr<StreamWatch>& watch) {
  std::lock_guard lock(mutex_);
  std::erase_if(watches_, [](const auto& entry) { return entry.expired(); });
  watches_.push_back(watch);
}

void StreamFault::check_watches() {
  std::vector<std::weak_ptr<StreamWatch>> watches;
  {
    std::lock_guard lock(mutex_);
    watches = watches_;
  }
  for (const auto& entry : watches)
    if (auto watch = entry.lock()) watch->check();
}

cudaStream_t as_cuda(Stream& stream) { return cast<CudaStream>(stream, "stream").handle(); }
std::shared_ptr<StreamFault> fault_of(Stream& stream) { return cast<CudaStream>(stream, "stream").fault(); }
bool is_capturing(Stream& stream) { return cast<CudaStream>(stream, "stream").capturing(); }

std::string cuda_driver_version() {
  const std::shared_ptr<Nvml> nvml = Nvml::open();
  return nvml ? nvml->driver_version() : std::string();
}

std::string cuda_runtime_version() {
  int version = 0;
  if (cudaRuntimeGetVersion(&version) != cudaSuccess) return {};
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

Availability cuda_availability() {
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  cudaGetLastError();
  if (code == cudaSuccess && count > 0) return {true, {}, {}};
  if (code == cudaErrorInsufficientDriver)
    return {false, "no NVIDIA driver, or one older than CUDA " + cuda_runtime_version(), "install or update the driver"};
  if (code == cudaErrorNoDevice || code == cudaSuccess)
    return {false, "the driver shows no CUDA device", "check nvidia-smi and CUDA_VISIBLE_DEVICES"};
  return {false, std::string("CUDA does not start: ") + cudaGetErrorString(code), "check nvidia-smi"};
}

std::vector<DeviceSpec> list_cuda_devices() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) {
    cudaGetLastError();
    return {};
  }
  std::vector<DeviceSpec> devices;
  for (int index = 0; index < count; ++index) devices.push_back(read_spec(index));
  return devices;
}

std::vector<std::unique_ptr<Device>> make_cuda_devices(const std::vector<int>& indices) {
  const Availability availability = cuda_availability();
  if (!availability.ok) throw Error(Cause::environment_missing, availability.reason, availability.remedy);
  int count = 0;
  cuda_check(cudaGetDeviceCount(&count), 0, "cudaGetDeviceCount");
  std::vector<std::unique_ptr<Device>> devices;
  for (int index : indices) {
    if (index < 0 || index >= count)
      throw Error(Cause::environment_missing, fmt::format("there is no GPU {}: this machine shows {}", index, count),
                  fmt::format("GPUs 0 to {}", count - 1));
    devices.push_back(std::make_unique<CudaDevice>(index));
  }
  return devices;
}

}  // namespace amdahl
