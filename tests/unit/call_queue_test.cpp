// Calls of a device without graphs start together; and how many of them a sample of the sensor benchmark has.
#include "measure/sampling/call_queue.h"

#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>
#include <thread>

#include "amdahl/amdahl.h"
#include "amdahl/sensor_bench.h"

namespace amdahl {
namespace {

constexpr double kTimeout = 30;

struct Queue : ::testing::Test {
  std::unique_ptr<Device> device = std::move(make_cpu_devices(1).front());
  std::unique_ptr<Stream> stream = device->make_stream("calls");
  std::unique_ptr<Event> first = device->make_event();
  Deadline soon() const { return Deadline::after_seconds(kTimeout); }
  bool passes_first() const {
    const Deadline deadline = soon();
    while (!first->done() && !deadline.expired()) std::this_thread::yield();
    return first->done();
  }
};

TEST_F(Queue, NothingStartsBeforeAllIsThere) {
  CallQueue queue(*device, make_cpu_transfer, kTimeout);
  queue.run(*stream, [&] {
    stream->record(*first);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_FALSE(first->done());
  });
  stream->synchronize(soon());
  EXPECT_TRUE(first->done());
}

TEST_F(Queue, NothingIsHeldWithoutATransfer) {
  CallQueue queue(*device, nullptr, kTimeout);
  queue.run(*stream, [&] {
    stream->record(*first);
    EXPECT_TRUE(passes_first());
  });
}

TEST_F(Queue, WhatIsThereRunsWhenEnqueueingFails) {
  CallQueue queue(*device, make_cpu_transfer, kTimeout);
  const auto fail = [&] {
    stream->record(*first);
    throw std::runtime_error("no more");
  };
  EXPECT_THROW(queue.run(*stream, fail), std::runtime_error);
  stream->synchronize(soon());
  EXPECT_TRUE(first->done());
}

/// Of every record.
std::vector<double> calls_of_samples(const std::string& mode, int calls) {
  SensorBenchConfig config;
  config.op = "fuse";
  config.mode = mode;
  config.devices = {2};
  config.engine.backend = "cpu";
  config.batch_sizes = {2};
  config.streams = {{2, 3}};
  config.targets = 1;
  config.samples = 2;
  config.calls = calls;
  Observer observer;
  std::vector<double> found;
  for (const Record& record : run_sensor_bench(config, observer).records)
    for (const Series& series : record.series)
      if (series.name == "calls_per_sample") found.push_back(series.samples.front());
  return found;
}

TEST(SensorBenchCalls, ASampleHasAsManyAsTakeAMillisecond) {
  for (const std::string mode : {"data", "hetero"}) {
    const std::vector<double> found = calls_of_samples(mode, 0);
    EXPECT_FALSE(found.empty());
    for (const double calls : found) EXPECT_GT(calls, 4) << mode << ": two rows of three numbers take a microsecond";
  }
}

TEST(SensorBenchCalls, ASampleHasAsManyAsAreAskedFor) {
  for (const std::string mode : {"data", "hetero"}) {
    const std::vector<double> found = calls_of_samples(mode, 3);
    EXPECT_FALSE(found.empty());
    for (const double calls : found) EXPECT_EQ(calls, 3) << mode;
  }
}

}  // namespace
}  // namespace amdahl
