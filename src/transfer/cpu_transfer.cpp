// Transfers of CPU virtual devices: all memory is host memory, the "copy engine" is memcpy and the "kernel" a loop,
// both on the stream's worker.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <random>

#include "base/wait_point.h"
#include "device/cpu_stream.h"
#include "transfer/host_affinity.h"
#include "transfer/transfer.h"

namespace amdahl {
namespace {

constexpr size_t kPageBytes = 4096;

class HostBuffer final : public Buffer {
 public:
  HostBuffer(void* data, size_t bytes) : data_(data), bytes_(bytes) {}
  ~HostBuffer() override { std::free(data_); }
  HostBuffer(const HostBuffer&) = delete;
  HostBuffer& operator=(const HostBuffer&) = delete;
  void* data() override { return data_; }
  size_t bytes() const override { return bytes_; }

 private:
  void* data_;
  size_t bytes_;
};

class CpuGate final : public Gate {
 public:
  explicit CpuGate(double timeout_seconds) : timeout_seconds_(timeout_seconds) {}
  ~CpuGate() override { CpuGate::open(); }
  CpuGate(const CpuGate&) = delete;
  CpuGate& operator=(const CpuGate&) = delete;

  void hold(Stream& stream) override {
    as_cpu(stream).enqueue([state = state_, timeout = timeout_seconds_] {
      const auto opened = [&] { return state->open.load(std::memory_order_acquire); };
      if (!state->opened.wait(opened, Deadline::after_seconds(timeout)))
        throw Error(Cause::rank_hung, fmt::format("a stream waited {} s to start with the others", timeout),
                    "a larger `timeout_seconds`");
    });
  }
  void open() override {
    state_->open.store(true, std::memory_order_release);
    state_->opened.notify();
  }

 private:
  struct State {
    std::atomic<bool> open{false};
    WaitPoint opened;
  };
  double timeout_seconds_;
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

/// Loads and stores of 64-byte blocks that the compiler cannot replace by memcpy.
void copy_by_loop(char* destination, const char* source, size_t bytes) {
  size_t at = 0;
  for (; at + 64 <= bytes; at += 64) {
    uint64_t block[8];
    for (int i = 0; i < 8; ++i) std::memcpy(&block[i], source + at + i * 8, 8);
    asm volatile("" ::: "memory");
    for (int i = 0; i < 8; ++i) std::memcpy(destination + at + i * 8, &block[i], 8);
  }
  for (; at < bytes; ++at) destination[at] = source[at];
}

class CpuTransfer final : public Transfer {
 public:
  void copy(Stream& stream, void* destination, const void* source, size_t bytes, Mover mover, int times) override {
    as_cpu(stream).enqueue([=] {
      for (int i = 0; i < times; ++i) {
        if (mover == Mover::engine)
          std::memcpy(destination, source, bytes);
        else
          copy_by_loop(static_cast<char*>(destination), static_cast<const char*>(source), bytes);
        asm volatile("" ::: "memory");  // keeps the compiler from removing repeated copies
      }
    });
  }

  std::unique_ptr<Buffer> allocate_host(size_t bytes, HostMemory, const std::string& cores) override {
    void* data = nullptr;
    run_on_cores(cores, [&] {
      data = std::aligned_alloc(kPageBytes, (bytes + kPageBytes - 1) / kPageBytes * kPageBytes);
      if (data) std::memset(data, 0, bytes);  // first touch places the pages
    });
    if (!data)
      throw Error(Cause::out_of_memory, fmt::format("{} bytes of host memory were not to be had", bytes),
                  "a smaller `buffer_bytes`");
    return std::make_unique<HostBuffer>(data, bytes);
  }

  std::unique_ptr<Gate> make_gate(double timeout_seconds) override {
    return std::make_unique<CpuGate>(timeout_seconds);
  }

  void write_pattern(Stream& stream, void* destination, size_t bytes, Pattern pattern, uint64_t seed,
                     bool complement) override {
    as_cpu(stream).enqueue([=] {
      const uint64_t flip = complement ? ~uint64_t{0} : 0;
      auto* out = static_cast<char*>(destination);
      for (size_t at = 0; at < bytes; at += 8) {
        const uint64_t word = pattern_word(pattern, seed, at / 8) ^ flip;
        std::memcpy(out + at, &word, std::min<size_t>(8, bytes - at));
      }
    });
  }

  PatternFault check_pattern(Stream& stream, const void* data, size_t bytes, Pattern pattern, uint64_t seed,
                             Deadline deadline) override {
    PatternFault fault;
    as_cpu(stream).enqueue([&, data] {
      const auto* in = static_cast<const uint8_t*>(data);
      for (size_t at = 0; at < bytes; at += 8) {
        const uint64_t wanted = pattern_word(pattern, seed, at / 8);
        const size_t width = std::min<size_t>(8, bytes - at);
        if (std::memcmp(in + at, &wanted, width) == 0) continue;
        for (size_t i = 0; i < width; ++i)
          judge_byte(fault, at + i, static_cast<uint8_t>(wanted >> (i * 8)), in[at + i]);
      }
    });
    stream.synchronize(deadline);
    return fault;
  }

  size_t chain_bytes() const override { return size_t{64} << 20; }
  double chase_us(Stream& stream, void* chain, size_t, int accesses, Deadline deadline) override {
    const std::unique_ptr<Event> start = stream.device().make_event(), end = stream.device().make_event();
    std::atomic<uint64_t> last{0};
    stream.stamp(*start);
    as_cpu(stream).enqueue([&last, chain, accesses] {
      const auto* at = static_cast<const uint64_t*>(chain);
      for (int i = 0; i < accesses; ++i) at = reinterpret_cast<const uint64_t*>(*at);
      last.store(reinterpret_cast<uint64_t>(at), std::memory_order_relaxed);  // keeps the walk
    });
    stream.stamp(*end);
    stream.synchronize(deadline);
    return stream.device().elapsed_us(*start, *end) / accesses;
  }
};

}  // namespace

std::vector<uint64_t> make_chain(const void* base, size_t bytes) {
  std::vector<uint64_t> order(std::max<size_t>(1, bytes / kChainStride));
  std::iota(order.begin(), order.end(), uint64_t{0});
  std::shuffle(order.begin() + 1, order.end(), std::mt19937_64(bytes));
  std::vector<uint64_t> words(bytes / 8, 0);
  for (size_t i = 0; i < order.size(); ++i)
    words[order[i] * (kChainStride / 8)] =
        reinterpret_cast<uint64_t>(base) + order[(i + 1) % order.size()] * kChainStride;
  return words;
}

std::unique_ptr<Transfer> make_cpu_transfer(Device& device) {
  if (device.backend() != BackendKind::cpu)
    throw Error(Cause::internal, "a device of another backend was handed to CPU code");
  return std::make_unique<CpuTransfer>();
}

}  // namespace amdahl
