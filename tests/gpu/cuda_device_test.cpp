#include "gpu_support.h"

namespace amdahl {
namespace {

class CudaDeviceTest : public GpuTest {};

TEST_F(CudaDeviceTest, DescribesItself) {
  const DeviceSpec& spec = device->spec();
  EXPECT_EQ(device->backend(), BackendKind::cuda);
  EXPECT_EQ(spec.kind, "cuda");
  EXPECT_FALSE(spec.name.empty());
  EXPECT_EQ(spec.uuid.size(), 40u);
  EXPECT_GT(spec.memory_bytes, int64_t{1} << 30);
  EXPECT_GT(spec.sm_count, 0);
  EXPECT_TRUE(device->supports_graphs().ok);
}

TEST_F(CudaDeviceTest, CopiesSmallAndLargeBothWays) {
  for (int64_t n : {int64_t{1}, int64_t{1000}, int64_t{65536}, int64_t{5'000'000}}) {
    const std::vector<float> values = random_floats(n, 3);
    EXPECT_EQ(floats(values).get(), values) << n;
  }
  // More copies in flight than there are bounce buffers.
  auto array = floats(random_floats(64, 4));
  std::vector<std::vector<float>> results(100, std::vector<float>(64));
  for (auto& result : results) device->copy_out(*stream, result.data(), array.data(), 64 * sizeof(float));
  finish();
  for (auto& result : results) EXPECT_EQ(result, array.get());
}

TEST_F(CudaDeviceTest, AccountsForMemory) {
  const size_t before = device->allocated_bytes();
  {
    auto buffer = device->allocate(1000);
    EXPECT_EQ(buffer->bytes(), 1000u);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % 256, 0u);
    EXPECT_EQ(device->allocated_bytes(), before + 1024);
  }
  EXPECT_EQ(device->allocated_bytes(), before);
  EXPECT_GE(device->peak_allocated_bytes(), before + 1024);
  device->reset_peak();
  EXPECT_EQ(device->peak_allocated_bytes(), before);
}

TEST_F(CudaDeviceTest, SaysHowMuchMemoryIsMissing) {
  try {
    device->allocate(size_t{1} << 50);
    FAIL() << "a pebibyte was allocated";
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::out_of_memory);
    EXPECT_NE(std::string(error.what()).find("1125899906842624"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("free"), std::string::npos) << error.what();
  }
  EXPECT_EQ(floats(std::vector<float>{1, 2}).get(), (std::vector<float>{1, 2}));  // the device still works
}

TEST_F(CudaDeviceTest, RefusesGpusThatAreNotThere) {
  try {
    make_cuda_devices({1000});
    FAIL() << "GPU 1000 was opened";
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::environment_missing);
  }
}

TEST_F(CudaDeviceTest, WaitsEndAtTheirDeadline) {
  auto buffer = device->allocate(size_t{1} << 30);
  for (int i = 0; i < 400; ++i) device->fill_zero(*stream, buffer->data(), buffer->bytes());
  try {
    stream->synchronize(Deadline::after_seconds(0));
    FAIL() << "400 GiB were written in no time";
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::rank_hung);
  }
  finish();
}

TEST_F(CudaDeviceTest, CopiesBehindAGivenUpWaitReachNobody) {
  auto buffer = device->allocate(size_t{1} << 30);
  auto source = floats(std::vector<float>{7});
  for (int i = 0; i < 400; ++i) device->fill_zero(*stream, buffer->data(), buffer->bytes());
  float host = 1;
  device->copy_out(*stream, &host, source.data(), sizeof host);
  EXPECT_THROW(stream->synchronize(Deadline::after_seconds(0)), Error);
  finish();
  EXPECT_EQ(host, 1.0f);
}

TEST_F(CudaDeviceTest, StampsTimeOutsideAndInsideGraphs) {
  auto start = device->make_event(), end = device->make_event();
  auto buffer = device->allocate(size_t{256} << 20);
  const auto work = [&] {
    stream->stamp(*start);
    device->fill_zero(*stream, buffer->data(), buffer->bytes());
    stream->stamp(*end);
  };
  work();
  finish();
  const double eager = device->elapsed_us(*start, *end);
  EXPECT_GT(eager, 10.0);
  auto graph = device->capture(*stream, work);
  EXPECT_GE(graph->num_nodes(), 3u);
  for (int i = 0; i < 3; ++i) {
    graph->launch(*stream);
    finish();
    EXPECT_TRUE(end->done());
    const double replayed = device->elapsed_us(*start, *end);
    EXPECT_GT(replayed, eager / 10);
    EXPECT_LT(replayed, eager * 10);
  }
}

TEST_F(CudaDeviceTest, CapturesStreamsThatJoin) {
  auto other = device->make_stream("comm");
  auto fork = device->make_event(), join = device->make_event(), start = device->make_event(),
       end = device->make_event();
  auto a = floats(random_floats(1000, 1)), b = floats(1000), c = floats(1000);
  auto graph = device->capture(*stream, [&] {
    stream->record(*fork);
    other->wait(*fork);
    other->stamp(*start);
    device->copy_within(*other, b.data(), a.data(), 4000);
    other->stamp(*end);
    other->record(*join);
    stream->wait(*join);
    device->copy_within(*stream, c.data(), b.data(), 4000);
  });
  graph->launch(*stream);
  finish();
  EXPECT_EQ(c.get(), a.get());
  EXPECT_GT(device->elapsed_us(*start, *end), 0.0);
}

TEST_F(CudaDeviceTest, RecoversFromAThrowInsideACapture) {
  EXPECT_THROW(device->capture(*stream, [&] { throw Error(Cause::internal, "on purpose"); }), Error);
  EXPECT_EQ(floats(std::vector<float>{5}).get(), std::vector<float>{5});
}

TEST_F(CudaDeviceTest, OrdersStreamsByEvents) {
  auto other = device->make_stream("comm");
  auto ready = device->make_event();
  auto buffer = device->allocate(size_t{1} << 30);
  auto from = floats(random_floats(1000, 2)), to = floats(1000), last = floats(1000);
  for (int i = 0; i < 50; ++i) device->fill_zero(*stream, buffer->data(), buffer->bytes());
  device->copy_within(*stream, to.data(), from.data(), 4000);
  stream->record(*ready);
  other->wait(*ready);
  device->copy_within(*other, last.data(), to.data(), 4000);
  other->synchronize(Deadline::after_seconds(60));
  EXPECT_TRUE(ready->done());
  EXPECT_EQ(last.get(), from.get());
}

TEST_F(CudaDeviceTest, ReadsHealthWhereNvmlIsThere) {
  const DeviceHealth health = device->health();
  if (health.sm_clock_mhz < 0) GTEST_SKIP() << "NVML shows nothing here";
  EXPECT_GT(health.temperature_c, 0);
  EXPECT_GT(health.power_w, 0);
  EXPECT_GT(health.energy_j, 0);
}

}  // namespace
}  // namespace amdahl
