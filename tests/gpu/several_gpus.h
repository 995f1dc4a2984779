// All GPUs of this machine, each with a stream and sensor operations, for tests of what goes through peers' memory.
// Where there is one, partitions of it that run beside each other.
#pragma once

#include <algorithm>
#include <cstdlib>

#include "gpu_support.h"
#include "sensor/ops/sensor_ops.h"

namespace amdahl {

/// Before CUDA starts: a kernel that is loaded at its first launch waits for all that run on its GPU, and those of one
/// partition may be waiting for that launch on another.
inline const bool kLoadsAtStart = setenv("CUDA_MODULE_LOADING", "EAGER", 0) == 0;

/// `wanted` GPUs, or as many partitions of the only one; 0: all GPUs, or 3 partitions. None where there are several
/// GPUs but too few, or where the only one cannot be divided: `why` says so.
inline std::vector<std::unique_ptr<Device>> gpus_or_partitions(int wanted, std::string& why) {
  const auto present = static_cast<int>(list_cuda_devices().size());
  const int count = wanted > 0 ? wanted : present > 1 ? std::min(present, 8) : 3;
  why = std::to_string(count) + " GPUs are needed, or one to divide, and " + std::to_string(present) + " are here";
  if (present > 1 && present < count) return {};
  std::vector<int> indices;
  for (int i = 0; i < count; ++i) indices.push_back(present > 1 ? i : 0);
  std::vector<double> shares;
  if (present == 1)  // 132 multiprocessors are 15 groups of 8
    shares.assign(indices.size(), count == 2 ? 0.42 : count == 3 ? 0.3 : 0.72 / count);
  try {
    return make_cuda_devices(indices, shares);
  } catch (const Error& error) {
    if (error.cause() != Cause::environment_missing) throw;
    why = std::string("here is one GPU, and it cannot be divided: ") + error.what();
    return {};
  }
}

class SeveralGpusTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const Availability availability = cuda_availability();
    if (!availability.ok) GTEST_SKIP() << availability.reason;
    ASSERT_TRUE(kLoadsAtStart);
    std::string why;
    devices_ = gpus_or_partitions(wanted_ranks(), why);
    if (devices_.empty()) GTEST_SKIP() << why;
    for (auto& device : devices_) {
      streams_.push_back(device->make_stream("sensor"));
      ops_.push_back(make_cuda_sensor_ops(*device));
      for (auto& other : devices_) {
        const Feasibility reach = device == other ? Feasibility{} : device->reach(*other);
        if (!reach.ok) GTEST_SKIP() << reach.reason;
      }
    }
  }
  void TearDown() override {
    ops_.clear(), streams_.clear();
    devices_.clear();
  }

  /// Number of GPUs or partitions; 0: all GPUs, or 3 partitions of the only one.
  virtual int wanted_ranks() const { return 0; }
  size_t world() const { return devices_.size(); }
  void synchronize() {
    for (auto& stream : streams_) stream->synchronize(Deadline::after_seconds(60));
  }
  /// Zeroed symmetric memory, `bytes` of each rank's device: by rank, each one's access to all.
  std::vector<SymmetricMemory> shared_zeros(size_t bytes, double timeout_seconds) {
    std::vector<Device*> devices;
    std::vector<std::shared_ptr<Buffer>> buffers;
    for (auto& device : devices_) {
      devices.push_back(device.get());
      buffers.push_back(allocate_zeroed(*device, bytes, Deadline::after_seconds(60)));
    }
    std::vector<SymmetricMemory> ranks;
    for (size_t r = 0; r < world(); ++r)
      ranks.push_back(memory_of_buffers(devices, buffers, static_cast<int>(r), timeout_seconds));
    return ranks;
  }
  template <class T>
  std::unique_ptr<GpuArray<T>> array(size_t rank, const std::vector<T>& values) {
    return std::make_unique<GpuArray<T>>(*devices_[rank], *streams_[rank], values);
  }
  /// That the first rank's stream ends with the error of the last rank, which did not arrive.
  void expect_a_missing_rank() {
    try {
      streams_[0]->synchronize(Deadline::after_seconds(60));
      ADD_FAILURE() << "nobody was missed";
    } catch (const Error& error) {
      EXPECT_EQ(error.cause(), Cause::rank_hung) << error.what();
      EXPECT_EQ(error.rank(), static_cast<int>(world()) - 1) << error.what();
    }
  }
  /// What `enqueue` enqueues for a rank, as a graph.
  template <class Enqueue>
  std::vector<std::unique_ptr<Graph>> graphs_of(const Enqueue& enqueue) {
    std::vector<std::unique_ptr<Graph>> graphs;
    for (size_t r = 0; r < world(); ++r) graphs.push_back(devices_[r]->capture(*streams_[r], [&] { enqueue(r); }));
    return graphs;
  }

  std::vector<std::unique_ptr<Device>> devices_;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::vector<std::unique_ptr<SensorOps>> ops_;
};

}  // namespace amdahl
