// All GPUs of this machine, each with a stream and sensor operations, for tests of what goes through peers' memory.
// Where there is one, partitions of it that run beside each other.
#pragma once

#include <algorithm>
#include <cstdlib>

#include "gpu_support.h"
#include "sensor/sensor_ops.h"

namespace amdahl {

/// Before CUDA starts: a kernel that is loaded at its first launch waits for all that run on its GPU, and those of one
/// partition may be waiting for that launch on another.
inline const bool kLoadsAtStart = setenv("CUDA_MODULE_LOADING", "EAGER", 0) == 0;

class SeveralGpusTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const Availability availability = cuda_availability();
    if (!availability.ok) GTEST_SKIP() << availability.reason;
    ASSERT_TRUE(kLoadsAtStart);
    const int count = std::min(static_cast<int>(list_cuda_devices().size()), 8);
    std::vector<int> indices;
    for (int i = 0; i < count; ++i) indices.push_back(i);
    try {
      devices_ = count > 1 ? make_cuda_devices(indices) : make_cuda_devices({0, 0, 0}, {0.3, 0.3, 0.3});
    } catch (const Error& error) {
      if (error.cause() != Cause::environment_missing) throw;
      GTEST_SKIP() << "here is one GPU, and it cannot be divided: " << error.what();
    }
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
