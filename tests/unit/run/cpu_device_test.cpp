#include "device/cpu_device.h"
#include "waits.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <limits>
#include <numeric>
#include <thread>
#include <vector>

namespace amdahl {
namespace {

using std::chrono::milliseconds;

struct CpuDeviceTest : testing::Test {
  std::vector<std::unique_ptr<Device>> devices = make_cpu_devices(2);
  Device& device = *devices[0];
};

TEST_F(CpuDeviceTest, DescribesItself) {
  EXPECT_EQ(device.spec().kind, "cpu-virtual");
  EXPECT_EQ(devices[1]->spec().name, "CPU virtual device 1");
  EXPECT_FALSE(device.supports_graphs().ok);
  auto stream = device.make_stream("compute");
  EXPECT_THROW(device.capture(*stream, [] {}), Error);
  EXPECT_THROW(make_cpu_devices(0), Error);
}

TEST_F(CpuDeviceTest, RunsWorkInOrderWithoutBlockingTheHost) {
  auto stream = device.make_stream("compute");
  std::atomic<bool> open{false};
  std::vector<int> order;
  as_cpu(*stream).enqueue([&] {
    while (!open.load()) std::this_thread::yield();
  });
  for (int i = 0; i < 1000; ++i) as_cpu(*stream).enqueue([&order, i] { order.push_back(i); });
  auto event = device.make_event();
  stream->record(*event);
  EXPECT_FALSE(event->done());
  open = true;
  stream->synchronize(soon());
  EXPECT_TRUE(event->done());
  std::vector<int> expected(1000);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(order, expected);
}

TEST_F(CpuDeviceTest, AnEventOrdersTwoStreams) {
  auto compute = device.make_stream("compute");
  auto comm = device.make_stream("comm");
  auto ready = device.make_event();
  int value = 0;  // no atomic: the event must order the accesses (TSan checks)
  for (int round = 1; round <= 200; ++round) {
    as_cpu(*compute).enqueue([&] { value = round; });
    compute->record(*ready);
    comm->wait(*ready);
    as_cpu(*comm).enqueue([&] { EXPECT_EQ(value, round); });
    comm->record(*ready);
    compute->wait(*ready);
    compute->synchronize(soon());
  }
}

TEST_F(CpuDeviceTest, WaitingForAnUnrecordedEventPassesAtOnce) {
  auto stream = device.make_stream("compute");
  auto event = device.make_event();
  EXPECT_TRUE(event->done());
  stream->wait(*event);
  stream->synchronize(soon());
}

TEST_F(CpuDeviceTest, AWaitKeepsTheMarkOfItsCall) {
  auto first = device.make_stream("first"), second = device.make_stream("second");
  auto event = device.make_event();
  std::atomic<bool> open{false};
  first->record(*event);
  second->wait(*event);
  as_cpu(*first).enqueue([&] {
    while (!open.load()) std::this_thread::yield();
  });
  first->record(*event);  // a later mark, which `second` does not wait for
  second->synchronize(soon());
  open = true;
  first->synchronize(soon());
}

TEST_F(CpuDeviceTest, MeasuresElapsedAndBusyTime) {
  auto stream = device.make_stream("compute");
  auto start = device.make_event(), end = device.make_event();
  EXPECT_THROW(device.elapsed_us(*start, *end), Error);
  stream->record(*start);
  as_cpu(*stream).enqueue([] { std::this_thread::sleep_for(milliseconds(20)); });
  stream->record(*end);
  stream->synchronize(soon());
  EXPECT_GE(device.elapsed_us(*start, *end), 20e3);
  EXPECT_GE(as_cpu(*stream).busy_us(), 20e3);
  EXPECT_LE(as_cpu(*stream).busy_us(), device.elapsed_us(*start, *end));
}

TEST_F(CpuDeviceTest, TheFirstErrorPoisonsTheStreamAndWhoeverWaitsForIt) {
  auto stream = device.make_stream("compute"), follower = device.make_stream("comm");
  auto event = device.make_event();
  bool ran = false;
  as_cpu(*stream).enqueue([] { throw Error(Cause::non_finite, "first"); });
  as_cpu(*stream).enqueue([] { throw Error(Cause::internal, "second"); });
  as_cpu(*stream).enqueue([&] { ran = true; });
  stream->record(*event);
  follower->wait(*event);
  as_cpu(*follower).enqueue([&] { ran = true; });
  for (Stream* each : {stream.get(), stream.get(), follower.get()}) {
    try {
      each->synchronize(soon());
      FAIL() << "a poisoned stream synchronized";
    } catch (const Error& e) {
      EXPECT_STREQ(e.what(), "first");
    }
  }
  EXPECT_TRUE(event->done());
  EXPECT_FALSE(ran);
}

TEST_F(CpuDeviceTest, SynchronizeGivesUpAtTheDeadlineAndNamesTheStream) {
  auto stream = device.make_stream("compute");
  std::atomic<bool> open{false};
  as_cpu(*stream).enqueue([&] {
    while (!open.load()) std::this_thread::sleep_for(milliseconds(1));
  });
  std::thread opener([&] {
    std::this_thread::sleep_for(milliseconds(200));
    open = true;
  });
  try {
    stream->synchronize(Deadline::after_seconds(0.05));
    ADD_FAILURE() << "a stuck stream synchronized";
  } catch (const Error& e) {
    EXPECT_EQ(e.cause(), Cause::rank_hung);
    EXPECT_NE(std::string(e.what()).find("stream 'compute' of CPU virtual device 0"), std::string::npos) << e.what();
  }
  opener.join();
}

TEST_F(CpuDeviceTest, AStreamThatGaveUpTouchesNoMemoryOfItsCaller) {
  auto stream = device.make_stream("compute");
  std::atomic<bool> ended{false};
  {
    std::vector<char> host(1 << 20);
    as_cpu(*stream).enqueue([&] {
      std::this_thread::sleep_for(milliseconds(100));
      std::memset(host.data(), 1, host.size());
      ended = true;
    });
    as_cpu(*stream).enqueue([&] { std::memset(host.data(), 2, host.size()); });
    EXPECT_THROW(stream->synchronize(Deadline::after_seconds(0.01)), Error);
    EXPECT_TRUE(ended);
    EXPECT_EQ(host[0], 1);  // the second item was dropped
  }
  EXPECT_THROW(stream->synchronize(soon()), Error);
}

TEST_F(CpuDeviceTest, AStopEndsAWaitWithinAnItemAndDropsTheRest) {
  auto stream = device.make_stream("compute");
  std::atomic<bool> stop{false};
  std::atomic<int> ran{0};
  device.end_waits_when([&] { return stop.load(); });
  for (int i = 0; i < 1000; ++i)
    as_cpu(*stream).enqueue([&] {
      std::this_thread::sleep_for(milliseconds(20));
      if (++ran == 5) stop = true;
    });
  try {
    stream->synchronize(soon());
    FAIL() << "a stopped wait went on to its end";
  } catch (const Error& e) {
    EXPECT_EQ(e.cause(), Cause::interrupted) << e.what();
  }
  const int ran_then = ran;
  EXPECT_LT(ran_then, 500);
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_EQ(ran, ran_then);
}

TEST(Deadline, ClampsSpansThatTheClockCannotHold) {
  for (const double seconds : {1e300, std::numeric_limits<double>::infinity(), 1e9}) {
    EXPECT_FALSE(Deadline::after_seconds(seconds).expired()) << seconds;
    EXPECT_GT(Deadline::after_seconds(seconds).remaining(), std::chrono::hours(24));
  }
  for (const double seconds : {-1.0, -1e300, std::numeric_limits<double>::quiet_NaN()})
    EXPECT_TRUE(Deadline::after_seconds(seconds).expired()) << seconds;
}

TEST_F(CpuDeviceTest, DestructionRunsWhatIsQueuedAndDropsItWhileUnwinding) {
  std::atomic<int> ran{0};
  {
    auto stream = device.make_stream("compute");
    for (int i = 0; i < 100; ++i) as_cpu(*stream).enqueue([&] { ++ran; });
  }
  EXPECT_EQ(ran, 100);
  try {
    auto stream = device.make_stream("compute");
    as_cpu(*stream).enqueue([] { std::this_thread::sleep_for(milliseconds(50)); });
    as_cpu(*stream).enqueue([&] { ran = -1; });
    throw 1;
  } catch (int) {
  }
  EXPECT_EQ(ran, 100);
}

TEST_F(CpuDeviceTest, CopiesAndAccountsForBuffers) {
  auto stream = device.make_stream("compute");
  const std::vector<int> source{1, 2, 3, 4};
  std::vector<int> result(4, -1);
  {
    auto a = device.allocate(16), b = device.allocate(16);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(a->data()) % 256, 0u);
    EXPECT_EQ(device.allocated_bytes(), 32u);
    device.copy_in(*stream, a->data(), source.data(), 16);
    device.copy_within(*stream, b->data(), a->data(), 16);
    device.fill_zero(*stream, b->data(), 4);
    device.copy_out(*stream, result.data(), b->data(), 16);
    stream->synchronize(soon());
  }
  EXPECT_EQ(result, (std::vector<int>{0, 2, 3, 4}));
  EXPECT_EQ(device.allocated_bytes(), 0u);
  EXPECT_EQ(device.peak_allocated_bytes(), 32u);
  device.reset_peak();
  EXPECT_EQ(device.peak_allocated_bytes(), 0u);
  EXPECT_EQ(device.allocate(0)->bytes(), 0u);
}

TEST_F(CpuDeviceTest, FreeingABufferWaitsForTheWorkThatMayUseIt) {
  auto stream = device.make_stream("compute");
  auto buffer = device.allocate(64);
  auto* data = buffer->as<char>();
  as_cpu(*stream).enqueue([data] {
    std::this_thread::sleep_for(milliseconds(20));
    std::memset(data, 1, 64);  // ASan would report a use after free
  });
  buffer.reset();
  // A buffer that a work item owns is freed on the worker, and must not wait for its own stream.
  std::shared_ptr<Buffer> owned = device.allocate(64);
  as_cpu(*stream).enqueue([owned = std::move(owned)] { owned->as<char>()[0] = 1; });
  stream->synchronize(soon());
  EXPECT_EQ(device.allocated_bytes(), 0u);
}

/// A shared heap may be freed by another rank's thread while this rank's streams end. ThreadSanitizer and ASan watch.
TEST_F(CpuDeviceTest, StreamsMayEndWhileAnotherThreadFreesABuffer) {
  for (int i = 0; i < 50; ++i) {
    std::vector<std::unique_ptr<Stream>> streams;
    for (int k = 0; k < 3; ++k) {
      streams.push_back(device.make_stream("compute"));
      as_cpu(*streams.back()).enqueue([] { std::this_thread::sleep_for(std::chrono::microseconds(50)); });
    }
    std::thread other([buffer = device.allocate(64)]() mutable { buffer.reset(); });
    streams.clear();
    other.join();
    EXPECT_EQ(device.allocated_bytes(), 0u);
  }
}

TEST_F(CpuDeviceTest, SaysHowMuchMemoryWasAskedAndIsFree) {
  try {
    device.allocate(size_t{1} << 50);
    FAIL() << "a petabyte was allocated";
  } catch (const Error& e) {
    EXPECT_EQ(e.cause(), Cause::out_of_memory);
    EXPECT_NE(std::string(e.what()).find("available"), std::string::npos);
  }
}

}  // namespace
}  // namespace amdahl
