// CPU virtual devices: threads that emulate GPUs, so that overlap, bucketing and schedules run without a GPU.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "device/cpu_stream.h"
#include "device/device.h"

namespace amdahl {

class RegisteredStream;

class CpuDevice : public Device {
 public:
  explicit CpuDevice(int index, double speed = 1);

  BackendKind backend() const override { return BackendKind::cpu; }
  const DeviceSpec& spec() const override { return spec_; }
  std::unique_ptr<Stream> make_stream(const std::string& name) override;
  std::unique_ptr<Event> make_event() override;
  double elapsed_us(const Event& start, const Event& end) override;
  std::optional<int64_t> host_time_ns(const Event& event) override;

  std::unique_ptr<Buffer> allocate(size_t bytes) override;
  std::unique_ptr<Buffer> allocate_host(size_t bytes) override;
  int64_t free_bytes() const override;
  size_t allocated_bytes() const override { return memory_->current.load(); }
  size_t peak_allocated_bytes() const override { return memory_->peak.load(); }
  void reset_peak() override { memory_->peak.store(memory_->current.load()); }

  void copy_in(Stream& stream, void* device_destination, const void* host_source, size_t bytes) override;
  void copy_out(Stream& stream, void* host_destination, const void* device_source, size_t bytes) override;
  void copy_within(Stream& stream, void* destination, const void* source, size_t bytes) override;
  void fill_zero(Stream& stream, void* destination, size_t bytes) override;

  Feasibility supports_graphs() const override { return {false, "CUDA graphs need a CUDA device"}; }
  std::unique_ptr<Graph> capture(Stream& origin, const std::function<void()>& enqueue) override;
  void bind_thread() override {}
  DeviceHealth health() override { return {}; }

 private:
  friend class CpuBuffer;
  friend class RegisteredStream;

  /// Shared with the buffers, which may outlive their device.
  struct Memory {
    std::atomic<size_t> current{0};
    std::atomic<size_t> peak{0};
    std::mutex mutex;                        // guards streams and their draining_
    std::vector<RegisteredStream*> streams;  // live streams, which freeing a buffer drains first, as cudaFree does
    std::condition_variable drained;
  };

  DeviceSpec spec_;
  double speed_;  // fraction of this thread's that streams use
  std::shared_ptr<Memory> memory_;
};

}  // namespace amdahl
