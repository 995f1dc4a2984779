#include "device/cpu_device.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#include "amdahl/error.h"

namespace amdahl {
namespace {

constexpr size_t kAlignment = 256;
/// Reading /proc/meminfo takes tens of microseconds, so only large allocations are checked against it.
constexpr size_t kCheckedBytes = size_t{4} << 20;

int64_t total_memory_bytes() {
  struct sysinfo info {};
  if (sysinfo(&info) != 0) return 0;
  return static_cast<int64_t>(info.totalram) * info.mem_unit;
}

/// MemAvailable of /proc/meminfo; the total when it cannot be read.
int64_t available_memory_bytes() {
  std::ifstream file("/proc/meminfo");
  std::string key;
  int64_t kilobytes = 0;
  std::string unit;
  while (file >> key >> kilobytes && std::getline(file, unit))
    if (key == "MemAvailable:") return kilobytes * 1024;
  return total_memory_bytes();
}

[[noreturn]] void throw_out_of_memory(const std::string& device, size_t asked) {
  rlimit addresses{};
  const bool limited = getrlimit(RLIMIT_AS, &addresses) == 0 && addresses.rlim_cur != RLIM_INFINITY;
  throw Error(
      Cause::out_of_memory,
      fmt::format("{}: {} asked, {} available on this machine", device, format_bytes(static_cast<double>(asked)),
                  format_bytes(static_cast<double>(available_memory_bytes()))),
      std::string("use a smaller batch, model or number of virtual devices") +
          (limited ? ", or a higher limit of memory (ulimit -v)" : ""));
}

}  // namespace

/// A stream that is registered with its device during its lifetime.
class RegisteredStream : public CpuStream {
 public:
  RegisteredStream(CpuDevice& device, const std::string& name, std::shared_ptr<CpuDevice::Memory> memory)
      : CpuStream(device, name, device.speed_), memory_(std::move(memory)) {
    std::lock_guard lock(memory_->mutex);
    memory_->streams.push_back(this);
  }
  ~RegisteredStream() override {
    std::unique_lock lock(memory_->mutex);
    std::erase(memory_->streams, this);
    memory_->drained.wait(lock, [&] { return draining_ == 0; });
  }

  /// Drains the registered streams of `memory`. A stream that is destroyed meanwhile waits for its part of this.
  static void drain_all(CpuDevice::Memory& memory) {
    std::unique_lock lock(memory.mutex);
    const std::vector<RegisteredStream*> streams = memory.streams;
    // Called by a work item, which no longer uses what is freed: a drain from a worker could wait for itself.
    if (std::any_of(streams.begin(), streams.end(), [](const CpuStream* stream) { return stream->on_worker(); }))
      return;
    for (RegisteredStream* stream : streams) {
      if (std::find(memory.streams.begin(), memory.streams.end(), stream) == memory.streams.end()) continue;
      ++stream->draining_;
      lock.unlock();
      stream->drain();
      lock.lock();
      --stream->draining_;
      memory.drained.notify_all();
    }
  }

 private:
  std::shared_ptr<CpuDevice::Memory> memory_;
  int draining_ = 0;  // threads that are in drain()
};

class CpuBuffer : public Buffer {
 public:
  CpuBuffer(std::shared_ptr<CpuDevice::Memory> memory, void* data, size_t bytes)
      : memory_(std::move(memory)), data_(data), bytes_(bytes) {
    const size_t now = memory_->current.fetch_add(bytes_) + bytes_;
    size_t peak = memory_->peak.load();
    while (peak < now && !memory_->peak.compare_exchange_weak(peak, now)) {
    }
  }
  ~CpuBuffer() override {
    RegisteredStream::drain_all(*memory_);
    std::free(data_);
    memory_->current.fetch_sub(bytes_);
  }
  CpuBuffer(const CpuBuffer&) = delete;
  CpuBuffer& operator=(const CpuBuffer&) = delete;

  void* data() override { return data_; }
  size_t bytes() const override { return bytes_; }

 private:
  std::shared_ptr<CpuDevice::Memory> memory_;
  void* data_;
  size_t bytes_;
};

CpuDevice::CpuDevice(int index, double speed) : speed_(speed), memory_(std::make_shared<Memory>()) {
  spec_.index = index;
  spec_.kind = "cpu-virtual";
  spec_.name = fmt::format("CPU virtual device {}", index);
  spec_.memory_bytes = total_memory_bytes();
}

std::unique_ptr<Stream> CpuDevice::make_stream(const std::string& name) {
  return std::make_unique<RegisteredStream>(*this, name, memory_);
}

std::unique_ptr<Event> CpuDevice::make_event() { return std::make_unique<CpuEvent>(); }

double CpuDevice::elapsed_us(const Event& start, const Event& end) {
  const auto& first = dynamic_cast<const CpuEvent&>(start);
  const auto& last = dynamic_cast<const CpuEvent&>(end);
  if (!first.mark() || !last.mark() || !first.done() || !last.done())
    throw Error(Cause::internal, "elapsed_us needs two events that were recorded and passed");
  return static_cast<double>(last.mark()->time_ns - first.mark()->time_ns) * 1e-3;
}

std::optional<int64_t> CpuDevice::host_time_ns(const Event& event) {
  const auto& passed = dynamic_cast<const CpuEvent&>(event);
  if (!passed.mark() || !passed.done()) throw Error(Cause::internal, "host_time_ns needs an event that was passed");
  return passed.mark()->time_ns;
}

/// Uncounted, and in an account of its own: it is no memory of the device.
std::unique_ptr<Buffer> CpuDevice::allocate_host(size_t bytes) {
  CpuDevice host(spec_.index);
  return host.allocate(bytes);
}

int64_t CpuDevice::free_bytes() const { return available_memory_bytes(); }

std::unique_ptr<Buffer> CpuDevice::allocate(size_t bytes) {
  if (bytes > SIZE_MAX / 2) throw_out_of_memory(spec_.name, bytes);
  if (bytes >= kCheckedBytes && static_cast<int64_t>(bytes) > available_memory_bytes())
    throw_out_of_memory(spec_.name, bytes);
  const size_t rounded = std::max(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
  void* data = std::aligned_alloc(kAlignment, rounded);
  if (!data) throw_out_of_memory(spec_.name, bytes);
  return std::make_unique<CpuBuffer>(memory_, data, bytes);
}

void CpuDevice::copy_in(Stream& stream, void* device_destination, const void* host_source, size_t bytes) {
  copy_within(stream, device_destination, host_source, bytes);
}

void CpuDevice::copy_out(Stream& stream, void* host_destination, const void* device_source, size_t bytes) {
  copy_within(stream, host_destination, device_source, bytes);
}

void CpuDevice::copy_within(Stream& stream, void* destination, const void* source, size_t bytes) {
  if (bytes == 0) return;
  as_cpu(stream).enqueue([=] { std::memcpy(destination, source, bytes); });
}

void CpuDevice::fill_zero(Stream& stream, void* destination, size_t bytes) {
  if (bytes == 0) return;
  as_cpu(stream).enqueue([=] { std::memset(destination, 0, bytes); });
}

std::unique_ptr<Graph> CpuDevice::capture(Stream&, const std::function<void()>&) {
  throw Error(Cause::usage, "launch mode graph needs a CUDA device; this is a CPU virtual device", "`launch=eager`");
}

std::vector<std::unique_ptr<Device>> make_cpu_devices(int count, int first_index) {
  if (count < 1) throw Error(Cause::usage, fmt::format("{} CPU virtual devices asked for", count), "ask for 1 or more");
  return make_limited_cpu_devices(std::vector<double>(static_cast<size_t>(count), 1.0), first_index);
}

std::vector<std::unique_ptr<Device>> make_limited_cpu_devices(const std::vector<double>& speeds, int first_index) {
  std::vector<std::unique_ptr<Device>> devices;
  for (const double speed : speeds) {
    if (!(speed > 0 && speed <= 1))
      throw Error(Cause::usage, fmt::format("a CPU virtual device at {} of its speed", speed),
                  "a number above 0, at most 1");
    devices.push_back(std::make_unique<CpuDevice>(first_index + static_cast<int>(devices.size()), speed));
  }
  return devices;
}

}  // namespace amdahl
