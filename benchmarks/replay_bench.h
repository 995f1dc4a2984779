// Device time of an operation by graph replay, on buffers of random data: what the benchmarks of operations share.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/philox.h"
#include "device/device.h"
#include "ops/cuda_ops.h"
#include "ops/ops.h"

namespace amdahl {

/// Buffers live until clear().
class ReplayBench {
 public:
  /// `copies` of an operation in a graph.
  ReplayBench(Device& device, Ops& ops, int copies)
      : device_(device), ops_(ops), copies_(copies), stream_(device.make_stream("compute")) {}

  /// Random in [-1, 1), converted to `type`: zeros would run faster than real data.
  void* values(int64_t n, DType type = DType::f32) {
    std::vector<float> some(static_cast<size_t>(std::min<int64_t>(n, 1 << 20)));  // repeated, for the host's sake
    for (size_t i = 0; i < some.size(); ++i) some[i] = uniform(1, i, buffers_.size()) * 2 - 1;
    float* floats = static_cast<float*>(bytes(n * 4));
    for (int64_t at = 0; at < n; at += static_cast<int64_t>(some.size())) {
      const auto count = static_cast<size_t>(std::min<int64_t>(n - at, static_cast<int64_t>(some.size())));
      device_.copy_in(*stream_, floats + at, some.data(), count * sizeof(float));
    }
    finish();
    if (type == DType::f32) return floats;
    void* typed = bytes(n * static_cast<int64_t>(size_of(type)));
    ops_.matmul().convert(*stream_, floats, typed, type, n);
    finish();
    return typed;
  }
  float* floats(int64_t n) { return static_cast<float*>(values(n)); }
  /// Class indices whose frequencies fall like those of words.
  float* tokens(int64_t n, int64_t classes) {
    std::vector<float> some(static_cast<size_t>(n));
    for (size_t i = 0; i < some.size(); ++i) {
      const float u = uniform(2, i, 0);
      some[i] = static_cast<float>(
          std::min<int64_t>(classes - 1, static_cast<int64_t>(u * u * u * u * static_cast<float>(classes))));
    }
    float* data = static_cast<float*>(bytes(n * 4));
    device_.copy_in(*stream_, data, some.data(), some.size() * sizeof(float));
    finish();
    return data;
  }
  /// Zeroed.
  void* bytes(int64_t n) {
    buffers_.push_back(device_.allocate(static_cast<size_t>(n)));
    device_.fill_zero(*stream_, buffers_.back()->data(), static_cast<size_t>(n));
    return buffers_.back()->data();
  }
  void clear() {
    finish();
    buffers_.clear();
  }

  /// Prints and returns the median us of one `work`, with the rates that its bytes and operations make of it.
  double time(const std::string& name, double flops, double traffic_bytes, const std::function<void()>& work) {
    constexpr int kReplays = 20, kWarmUp = 3;
    work();
    const auto graph = device_.capture(*stream_, [&] {
      for (int i = 0; i < copies_; ++i) work();
    });
    auto start = device_.make_event(), end = device_.make_event();
    std::vector<double> samples;
    for (int i = 0; i < kReplays + kWarmUp; ++i) {
      stream_->stamp(*start);
      graph->launch(*stream_);
      stream_->stamp(*end);
      finish();
      if (i >= kWarmUp) samples.push_back(device_.elapsed_us(*start, *end) / copies_);
    }
    std::sort(samples.begin(), samples.end());
    const double us = samples[samples.size() / 2];
    fmt::print("  {:<34} {:9.2f} us {:3} nodes {:8.1f} GB/s {:10.1f} GFLOP/s\n", name, us,
               graph->num_nodes() / static_cast<size_t>(copies_), traffic_bytes / us * 1e-3, flops / us * 1e-3);
    return us;
  }
  Device& device() { return device_; }
  Ops& ops() { return ops_; }
  Stream& stream() { return *stream_; }

 private:
  static float uniform(uint64_t seed, size_t i, size_t number) {
    return philox_uniform(philox(seed, static_cast<uint32_t>(i), static_cast<uint32_t>(number), 0, 0).v[0]);
  }
  void finish() { stream_->synchronize(Deadline::after_seconds(120)); }

  Device& device_;
  Ops& ops_;
  const int copies_;
  std::unique_ptr<Stream> stream_;
  std::vector<std::unique_ptr<Buffer>> buffers_;
};

/// What a benchmark was asked to do: math mode, "deterministic", numbers.
struct BenchArguments {
  OpsOptions options;
  std::vector<int64_t> numbers;

  BenchArguments(int count, char** words, MathMode math) {
    options.math = math;
    for (int i = 1; i < count; ++i) {
      const std::string word = words[i];
      if (word == "fp32") options.math = MathMode::fp32;
      if (word == "tf32") options.math = MathMode::tf32;
      if (word == "bf16") options.math = MathMode::bf16;
      if (word == "deterministic") options.deterministic = true;
      if (!word.empty() && std::isdigit(static_cast<unsigned char>(word.front()))) numbers.push_back(std::stoll(word));
    }
  }
};

/// Runs `bench` and returns the program's exit code.
template <class Bench>
int run_bench(const Bench& bench) {
  try {
    bench();
    return 0;
  } catch (const Error& error) {
    fmt::print(stderr, "{}\n", error.line());
    return exit_code(error.cause());
  }
}

}  // namespace amdahl
