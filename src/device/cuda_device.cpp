#include "device/cuda_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <map>
#include <utility>

#include "device/cuda_check.h"
#include "device/cuda_partition.h"
#include "device/cuda_staging.h"
#include "device/cuda_stream.h"
#include "device/nvml.h"

namespace amdahl {
namespace {

constexpr size_t kAlignment = 256;

size_t round_up(size_t bytes) { return std::max(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment); }

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
      throw Error(
          Cause::out_of_memory,
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

/// Pinned memory of the host.
class PinnedBuffer final : public Buffer {
 public:
  PinnedBuffer(int device_index, size_t bytes) : bytes_(bytes) {
    const cudaError_t code = cudaHostAlloc(&data_, round_up(bytes), cudaHostAllocPortable);
    if (code == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      throw Error(Cause::out_of_memory, fmt::format("the host has no {} bytes of pinned memory", round_up(bytes)),
                  "a smaller batch");
    }
    cuda_check(code, device_index, "cudaHostAlloc");
  }
  ~PinnedBuffer() override { cudaFreeHost(data_); }
  PinnedBuffer(const PinnedBuffer&) = delete;
  PinnedBuffer& operator=(const PinnedBuffer&) = delete;
  void* data() override { return data_; }
  size_t bytes() const override { return bytes_; }

 private:
  size_t bytes_;
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
  spec.pci_bus_id =
      fmt::format("{:04x}:{:02x}:{:02x}.0", properties.pciDomainID, properties.pciBusID, properties.pciDeviceID);
  return spec;
}

/// In advance, so that it is not part of a measurement.
void create_context(int index) {
  cuda_check(cudaSetDevice(index), index, "cudaSetDevice");
  cuda_check(cudaFree(nullptr), index, "cudaFree");
}

class CudaDevice final : public Device {
 public:
  /// The GPU's context must exist.
  CudaDevice(int index, std::shared_ptr<const CudaPartition> partition)
      : spec_(read_spec(index)),
        partition_(std::move(partition)),
        staging_(std::make_shared<CudaStaging>(index)),
        nvml_(Nvml::open()) {
    watches_.add(staging_);
    bind_thread();
    if (partition_) spec_.whole_sm_count = std::exchange(spec_.sm_count, partition_->num_sms());
    std::array<char, 32> pci{};
    if (nvml_ && cudaDeviceGetPCIBusId(pci.data(), pci.size(), index) == cudaSuccess)
      nvml_device_ = nvml_->find_device(pci.data());
  }

  BackendKind backend() const override { return BackendKind::cuda; }
  const DeviceSpec& spec() const override { return spec_; }
  std::unique_ptr<Stream> make_stream(const std::string& name) override {
    bind_thread();
    return std::make_unique<CudaStream>(*this, watches_, name, partition_);
  }
  std::unique_ptr<Event> make_event() override {
    bind_thread();
    return std::make_unique<CudaEvent>(spec_.index);
  }
  double elapsed_us(const Event& start, const Event& end) override {
    float milliseconds = 0;
    cuda_check(cudaEventElapsedTime(&milliseconds, as_cuda(start), as_cuda(end)), spec_.index, "cudaEventElapsedTime");
    return milliseconds * 1e3;
  }

  std::unique_ptr<Buffer> allocate(size_t bytes) override {
    bind_thread();
    return std::make_unique<CudaBuffer>(spec_.index, bytes, account_);
  }
  std::unique_ptr<Buffer> allocate_host(size_t bytes) override {
    bind_thread();
    return std::make_unique<PinnedBuffer>(spec_.index, bytes);
  }
  int64_t free_bytes() const override {
    cuda_check(cudaSetDevice(spec_.index), spec_.index, "cudaSetDevice");
    size_t free = 0, total = 0;
    cuda_check(cudaMemGetInfo(&free, &total), spec_.index, "cudaMemGetInfo");
    return static_cast<int64_t>(free);
  }
  size_t allocated_bytes() const override { return account_->now; }
  size_t peak_allocated_bytes() const override { return account_->peak; }
  void reset_peak() override { account_->peak = account_->now.load(); }

  void copy_in(Stream& stream, void* device_destination, const void* host_source, size_t bytes) override {
    if (bytes == 0) return;
    bind_thread();
    CudaStream& queue = as_cuda_stream(stream);
    if (!queue.capturing() && staging_->copy_in(queue.handle(), device_destination, host_source, bytes)) return;
    copy(queue, device_destination, host_source, bytes, cudaMemcpyHostToDevice);
  }
  void copy_in_pinned(Stream& stream, void* device_destination, const void* host_source, size_t bytes) override {
    if (bytes == 0) return;
    bind_thread();
    copy(as_cuda_stream(stream), device_destination, host_source, bytes, cudaMemcpyHostToDevice);
  }
  void copy_out(Stream& stream, void* host_destination, const void* device_source, size_t bytes) override {
    if (bytes == 0) return;
    bind_thread();
    CudaStream& queue = as_cuda_stream(stream);
    if (!queue.capturing() && staging_->copy_out(queue.handle(), host_destination, device_source, bytes)) return;
    copy(queue, host_destination, device_source, bytes, cudaMemcpyDeviceToHost);
  }
  void copy_within(Stream& stream, void* destination, const void* source, size_t bytes) override {
    if (bytes == 0) return;
    bind_thread();
    copy(as_cuda_stream(stream), destination, source, bytes, cudaMemcpyDeviceToDevice);
  }
  void fill_zero(Stream& stream, void* destination, size_t bytes) override {
    if (bytes == 0) return;
    bind_thread();
    cuda_check(cudaMemsetAsync(destination, 0, bytes, as_cuda(stream)), spec_.index, "cudaMemsetAsync");
  }

  Feasibility supports_graphs() const override { return {}; }
  std::unique_ptr<Graph> capture(Stream& origin, const std::function<void()>& enqueue) override;

  Feasibility reach_peer(Device& peer) override;

  StreamWatches& watches() { return watches_; }
  void bind_thread() override { cuda_check(cudaSetDevice(spec_.index), spec_.index, "cudaSetDevice"); }
  DeviceHealth health() override { return nvml_ ? nvml_->read_health(nvml_device_) : DeviceHealth{}; }

 private:
  void copy(CudaStream& stream, void* destination, const void* source, size_t bytes, cudaMemcpyKind kind) {
    cuda_check(cudaMemcpyAsync(destination, source, bytes, kind, stream.handle()), spec_.index, "cudaMemcpyAsync");
  }

  DeviceSpec spec_;
  std::shared_ptr<const CudaPartition> partition_;  // null: the whole GPU
  StreamWatches watches_;
  std::shared_ptr<Account> account_ = std::make_shared<Account>();
  std::shared_ptr<CudaStaging> staging_;
  std::shared_ptr<Nvml> nvml_;
  void* nvml_device_ = nullptr;
};

Feasibility CudaDevice::reach_peer(Device& peer) {
  if (peer.backend() != BackendKind::cuda) return {false, "a CUDA device reaches CUDA devices only"};
  const int to = peer.spec().index;
  if (to == spec_.index) return {};
  bind_thread();
  int possible = 0;
  cuda_check(cudaDeviceCanAccessPeer(&possible, spec_.index, to), spec_.index, "cudaDeviceCanAccessPeer");
  if (!possible) return {false, fmt::format("GPU {} cannot reach the memory of GPU {}", spec_.index, to)};
  const cudaError_t code = cudaDeviceEnablePeerAccess(to, 0);
  if (code == cudaErrorPeerAccessAlreadyEnabled) {
    cudaGetLastError();
    return {};
  }
  cuda_check(code, spec_.index, "cudaDeviceEnablePeerAccess");
  return {};
}

std::unique_ptr<Graph> CudaDevice::capture(Stream& origin, const std::function<void()>& enqueue) {
  bind_thread();
  cudaStream_t stream = as_cuda(origin);
  // Thread-local capture mode, because other ranks' threads may allocate or synchronize during the capture.
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
  auto captured = std::make_unique<CudaGraph>(*this, graph);
  captured->upload(stream);
  return captured;
}

}  // namespace

StreamWatches& watches_of(Device& device) {
  auto* cuda = dynamic_cast<CudaDevice*>(&device);
  if (!cuda) throw Error(Cause::internal, "a device of another backend was handed to CUDA code");
  return cuda->watches();
}

std::string cuda_runtime_version() {
  int version = 0;
  if (cudaRuntimeGetVersion(&version) != cudaSuccess) return {};
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

namespace {

/// cudaGetDeviceCount, the first call of CUDA. The streams of a device share hardware queues, 8 unless this variable
/// says otherwise when CUDA starts: work in one queue waits for all before it, also for a kernel of another stream that
/// waits for another device, which may be waiting for that work.
cudaError_t count_devices(int* count) {
  static const int more_queues = setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  static_cast<void>(more_queues);
  return cudaGetDeviceCount(count);
}

}  // namespace

Availability cuda_availability() {
  int count = 0;
  const cudaError_t code = count_devices(&count);
  cudaGetLastError();
  if (code == cudaSuccess && count > 0) return {true, {}, {}};
  if (code == cudaErrorInsufficientDriver)
    return {false, "no NVIDIA driver, or one older than CUDA " + cuda_runtime_version(),
            "install or update the driver"};
  if (code == cudaErrorNoDevice || code == cudaSuccess)
    return {false, "the driver shows no CUDA device", "check nvidia-smi and CUDA_VISIBLE_DEVICES"};
  return {false, std::string("CUDA does not start: ") + cudaGetErrorString(code), "check nvidia-smi"};
}

std::vector<DeviceSpec> list_cuda_devices() {
  int count = 0;
  if (count_devices(&count) != cudaSuccess) {
    cudaGetLastError();
    return {};
  }
  std::vector<DeviceSpec> devices;
  for (int index = 0; index < count; ++index) devices.push_back(read_spec(index));
  return devices;
}

std::vector<PeerAbility> list_cuda_peers() {
  const auto count = static_cast<int>(list_cuda_devices().size());
  std::vector<PeerAbility> peers;
  for (int from = 0; from < count; ++from)
    for (int to = 0; to < count; ++to) {
      if (from == to) continue;
      int access = 0, atomics = 0;
      cuda_check(cudaDeviceCanAccessPeer(&access, from, to), from, "cudaDeviceCanAccessPeer");
      cuda_check(cudaDeviceGetP2PAttribute(&atomics, cudaDevP2PAttrNativeAtomicSupported, from, to), from,
                 "cudaDeviceGetP2PAttribute");
      peers.push_back({from, to, access != 0, atomics != 0});
    }
  return peers;
}

std::vector<std::unique_ptr<Device>> make_cuda_devices(const std::vector<int>& indices,
                                                       const std::vector<double>& sm_shares) {
  const Availability availability = cuda_availability();
  if (!availability.ok) throw Error(Cause::environment_missing, availability.reason, availability.remedy);
  int count = 0;
  cuda_check(count_devices(&count), 0, "cudaGetDeviceCount");
  struct Parts {
    std::vector<double> shares;
    std::vector<size_t> devices;
  };
  std::map<int, Parts> divided;
  for (size_t i = 0; i < indices.size(); ++i) {
    const int index = indices[i];
    const double share = i < sm_shares.size() ? sm_shares[i] : 1.0;
    if (index < 0 || index >= count)
      throw Error(Cause::environment_missing, fmt::format("there is no GPU {}: this machine shows {}", index, count),
                  fmt::format("GPUs 0 to {}", count - 1));
    if (!(share > 0 && share <= 1))
      throw Error(Cause::usage, fmt::format("GPU {}: a share of {} of its multiprocessors", index, share),
                  "a number above 0, at most 1");
    create_context(index);
    if (share < 1) divided[index].shares.push_back(share), divided[index].devices.push_back(i);
  }
  std::vector<std::shared_ptr<const CudaPartition>> partitions(indices.size());
  for (const auto& [index, parts] : divided) {
    const auto made = divide_gpu(index, parts.shares);
    for (size_t k = 0; k < made.size(); ++k) partitions[parts.devices[k]] = made[k];
  }
  std::vector<std::unique_ptr<Device>> devices;
  for (size_t i = 0; i < indices.size(); ++i)
    devices.push_back(std::make_unique<CudaDevice>(indices[i], std::move(partitions[i])));
  return devices;
}

}  // namespace amdahl
