// Calls of a device without graphs start together.
#include "measure/sampling/call_queue.h"

#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>
#include <thread>

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

}  // namespace
}  // namespace amdahl
