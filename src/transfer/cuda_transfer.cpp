// Transfers of CUDA devices.
#include <fmt/format.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "device/cuda_check.h"
#include "device/cuda_device.h"
#include "transfer/cuda_transfer_kernels.h"
#include "transfer/host_affinity.h"
#include "transfer/transfer.h"

namespace amdahl {
namespace {

TransferLaunch launch_on(Stream& stream) {
  const DeviceSpec& spec = stream.device().spec();
  stream.device().bind_thread();
  return {as_cuda(stream), spec.index, spec.sm_count};
}

[[noreturn]] void throw_out_of_host_memory(size_t bytes, const char* kind) {
  throw Error(Cause::out_of_memory, fmt::format("{} bytes of {} host memory were not to be had", bytes, kind),
              "a smaller `buffer_bytes`");
}

class PinnedBuffer final : public Buffer {
 public:
  PinnedBuffer(int device_index, size_t bytes) : bytes_(bytes) {
    const cudaError_t code = cudaHostAlloc(&data_, std::max<size_t>(bytes, 1), cudaHostAllocPortable);
    if (code == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      throw_out_of_host_memory(bytes, "pinned");
    }
    cuda_check(code, device_index, "cudaHostAlloc");
    std::memset(data_, 0, bytes);
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

class PageableBuffer final : public Buffer {
 public:
  explicit PageableBuffer(size_t bytes) : bytes_(bytes), data_(std::malloc(std::max<size_t>(bytes, 1))) {
    if (!data_) throw_out_of_host_memory(bytes, "pageable");
    std::memset(data_, 0, bytes);
  }
  ~PageableBuffer() override { std::free(data_); }
  PageableBuffer(const PageableBuffer&) = delete;
  PageableBuffer& operator=(const PageableBuffer&) = delete;
  void* data() override { return data_; }
  size_t bytes() const override { return bytes_; }

 private:
  size_t bytes_;
  void* data_;
};

/// Held streams poll a word of pinned memory that belongs to the Transfer: one gate per Transfer at a time.
class CudaGate final : public Gate {
 public:
  CudaGate(int* word, double timeout_seconds)
      : address_(word), word_(*word), timeout_ns_(static_cast<uint64_t>(timeout_seconds * 1e9)) {
    word_.store(0, std::memory_order_release);
  }
  ~CudaGate() override { CudaGate::open(); }
  CudaGate(const CudaGate&) = delete;
  CudaGate& operator=(const CudaGate&) = delete;

  void hold(Stream& stream) override { launch_hold(launch_on(stream), address_, timeout_ns_); }
  void open() override { word_.store(1, std::memory_order_release); }

 private:
  const int* address_;
  std::atomic_ref<int> word_;
  uint64_t timeout_ns_;
};

class CudaTransfer final : public Transfer {
 public:
  explicit CudaTransfer(Device& device)
      : device_(device),
        fault_(device.allocate(sizeof(PatternFault))),
        found_(std::make_unique<PinnedBuffer>(device.spec().index, sizeof(PatternFault))),
        gate_word_(std::make_unique<PinnedBuffer>(device.spec().index, sizeof(int))) {}

  void copy(Stream& stream, void* destination, const void* source, size_t bytes, Mover mover, int times) override {
    if (bytes == 0) return;
    const TransferLaunch launch = launch_on(stream);
    if (mover == Mover::kernel) return launch_copy(launch, destination, source, bytes, times);
    for (int i = 0; i < times; ++i)
      cuda_check(cudaMemcpyAsync(destination, source, bytes, cudaMemcpyDefault, launch.stream), launch.device_index,
                 "cudaMemcpyAsync");
  }

  std::unique_ptr<Buffer> allocate_host(size_t bytes, HostMemory kind, const std::string& cores) override {
    std::unique_ptr<Buffer> buffer;
    run_on_cores(cores, [&] {
      device_.bind_thread();
      if (kind == HostMemory::pinned)
        buffer = std::make_unique<PinnedBuffer>(device_.spec().index, bytes);
      else
        buffer = std::make_unique<PageableBuffer>(bytes);
    });
    return buffer;
  }

  std::unique_ptr<Gate> make_gate(double timeout_seconds) override {
    return std::make_unique<CudaGate>(gate_word_->as<int>(), timeout_seconds);
  }

  void write_pattern(Stream& stream, void* destination, size_t bytes, Pattern pattern, uint64_t seed,
                     bool complement) override {
    if (bytes > 0) launch_write_pattern(launch_on(stream), destination, bytes, pattern, seed, complement);
  }

  PatternFault check_pattern(Stream& stream, const void* data, size_t bytes, Pattern pattern, uint64_t seed,
                             Deadline deadline) override {
    const TransferLaunch launch = launch_on(stream);
    const auto move = [&](void* to, const void* from) {
      cuda_check(cudaMemcpyAsync(to, from, sizeof(PatternFault), cudaMemcpyDefault, launch.stream), launch.device_index,
                 "cudaMemcpyAsync");
    };
    auto* found = found_->as<PatternFault>();
    *found = PatternFault{};
    move(fault_->data(), found);
    if (bytes > 0) launch_check_pattern(launch, data, bytes, pattern, seed, fault_->as<PatternFault>());
    move(found, fault_->data());
    stream.synchronize(deadline);
    return *found;
  }

  size_t chain_bytes() const override { return size_t{2} << 20; }
  double chase_us(Stream& stream, void* chain, size_t, int accesses, Deadline deadline) override {
    const TransferLaunch launch = launch_on(stream);
    const int each = std::max(1, accesses / launch.num_sms);
    double total_us = 0;
    for (int block = -1; block < launch.num_sms; ++block) {  // -1: loads address translations, not timed
      const std::unique_ptr<Event> start = device_.make_event(), end = device_.make_event();
      stream.stamp(*start);
      launch_chase(launch, chain, each, std::max(block, 0), fault_->as<uint64_t>());
      stream.stamp(*end);
      stream.synchronize(deadline);
      if (block >= 0) total_us += device_.elapsed_us(*start, *end);
    }
    return total_us / each / launch.num_sms;
  }

 private:
  Device& device_;
  std::unique_ptr<Buffer> fault_;        // on the device: PatternFault, or the chase's last address
  std::unique_ptr<PinnedBuffer> found_;  // on the host
  std::unique_ptr<PinnedBuffer> gate_word_;
};

}  // namespace

std::unique_ptr<Transfer> make_cuda_transfer(Device& device) {
  if (device.backend() != BackendKind::cuda)
    throw Error(Cause::internal, "a device of another backend was handed to CUDA code");
  return std::make_unique<CudaTransfer>(device);
}

}  // namespace amdahl
