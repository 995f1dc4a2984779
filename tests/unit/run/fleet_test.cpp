// Fleets: one device needs no communicator of its backend, and a stop ends the waits of every rank.
#include "measure/local_fleet.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "device/cpu_stream.h"

namespace amdahl {
namespace {

/// A stream of a backend that no CPU code knows: work is done when it is enqueued.
class PlainStream final : public Stream {
 public:
  explicit PlainStream(Device& device) : device_(device) {}
  Device& device() override { return device_; }
  void record(Event&) override {}
  void wait(Event&) override {}
  void synchronize(Deadline) override {}

 private:
  Device& device_;
};

class PlainDevice final : public Device {
 public:
  BackendKind backend() const override { return BackendKind::cuda; }
  const DeviceSpec& spec() const override { return spec_; }
  std::unique_ptr<Stream> make_stream(const std::string&) override { return std::make_unique<PlainStream>(*this); }
  std::unique_ptr<Event> make_event() override { return nullptr; }
  double elapsed_us(const Event&, const Event&) override { return 0; }
  std::unique_ptr<Buffer> allocate(size_t) override { return nullptr; }
  std::unique_ptr<Buffer> allocate_host(size_t) override { return nullptr; }
  int64_t free_bytes() const override { return 0; }
  size_t allocated_bytes() const override { return 0; }
  size_t peak_allocated_bytes() const override { return 0; }
  void reset_peak() override {}
  void copy_in(Stream& s, void* to, const void* from, size_t bytes) override { copy_within(s, to, from, bytes); }
  void copy_out(Stream& s, void* to, const void* from, size_t bytes) override { copy_within(s, to, from, bytes); }
  void copy_within(Stream&, void* to, const void* from, size_t bytes) override { std::memcpy(to, from, bytes); }
  void fill_zero(Stream&, void* to, size_t bytes) override { std::memset(to, 0, bytes); }
  Feasibility supports_graphs() const override { return {false, "a test"}; }
  std::unique_ptr<Graph> capture(Stream&, const std::function<void()>&) override { return nullptr; }
  void bind_thread() override {}
  DeviceHealth health() override { return {}; }

 private:
  DeviceSpec spec_;
};

std::unique_ptr<Fleet> fleet_of(std::vector<std::unique_ptr<Device>> devices) {
  FleetParts parts;
  parts.device_kind = "test";
  parts.devices = std::move(devices);
  parts.make_ops = [](Device& device) { return make_cpu_ops(device, {}); };
  return make_thread_fleet(std::move(parts), [](const std::vector<Device*>& group) {
    if (group.size() == 1) throw Error(Cause::environment_missing, "one device asks for a library");
    return make_inproc_communicators(static_cast<int>(group.size()), 20);
  });
}

TEST(Fleet, ALoneDeviceOfAnyKindHasEveryCollective) {
  std::vector<std::unique_ptr<Device>> devices;
  devices.push_back(std::make_unique<PlainDevice>());
  fleet_of(std::move(devices))->run(1, [](RankContext& rank) {
    Communicator& comm = rank.communicator;
    const auto stream = rank.device.make_stream("comm");
    EXPECT_EQ(comm.world_size(), 1);
    const std::vector<float> sent{1, 2, 3};
    std::vector<float> data = sent;
    comm.all_reduce(data.data(), 3, DType::f32, ReduceOp::sum, *stream);
    comm.reduce(data.data(), 3, DType::f32, ReduceOp::max, 0, *stream);
    comm.broadcast(data.data(), 3, DType::f32, 0, *stream);
    comm.reduce_scatter(data.data(), data.data(), 3, DType::f32, ReduceOp::sum, *stream);
    EXPECT_EQ(data, sent);
    using Move = std::function<void(float*)>;
    const Move moves[] = {
        [&](float* to) { comm.all_gather(sent.data(), to, 3, DType::f32, *stream); },
        [&](float* to) { comm.reduce_scatter(sent.data(), to, 3, DType::f32, ReduceOp::sum, *stream); },
        [&](float* to) { comm.scatter(sent.data(), to, 3, DType::f32, 0, *stream); },
    };
    for (const Move& move : moves) {
      std::vector<float> received(3);
      move(received.data());
      EXPECT_EQ(received, sent);
    }
    EXPECT_EQ(comm.traffic().num_calls, 7u);
    EXPECT_EQ(comm.traffic().payload_bytes, 7u * 12u);
    EXPECT_EQ(comm.exchange("alone", Deadline::after_seconds(1)), std::vector<std::string>{"alone"});
    EXPECT_THROW(comm.broadcast(data.data(), 3, DType::f32, 1, *stream), Error);
    EXPECT_THROW(comm.send(data.data(), 3, DType::f32, 0, *stream), Error);
    comm.abort(Error(Cause::interrupted, "over"));
    EXPECT_THROW(comm.all_reduce(data.data(), 3, DType::f32, ReduceOp::sum, *stream), Error);
    EXPECT_THROW(comm.barrier(Deadline::after_seconds(1)), Error);
  });
}

TEST(Fleet, AStopEndsTheWaitsOfEveryRankAndDropsWhatIsQueued) {
  const auto fleet = fleet_of(make_cpu_devices(2));
  std::atomic<bool> stop{false};
  std::atomic<int> ran{0};
  fleet->end_runs_when([&] { return stop.load(); });
  std::thread user([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    stop = true;
  });
  const auto start = Deadline::Clock::now();
  try {
    fleet->run(2, [&](RankContext& rank) {
      const auto stream = rank.device.make_stream("compute");
      for (int i = 0; i < 1000; ++i)
        as_cpu(*stream).enqueue([&] {
          std::this_thread::sleep_for(std::chrono::milliseconds(20));
          ++ran;
        });
      float value = 1;
      if (rank.rank == 1) stream->synchronize(Deadline::after_seconds(60));
      rank.communicator.all_reduce(&value, 1, DType::f32, ReduceOp::sum, *stream);
      stream->synchronize(Deadline::after_seconds(60));
    });
    ADD_FAILURE() << "20 s of work ended by themselves";
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::interrupted) << error.what();
  }
  user.join();
  EXPECT_LT(Deadline::Clock::now() - start, std::chrono::seconds(5));
  EXPECT_LT(ran, 500);
}

/// A host without the library that models compute with: what needs none of it runs.
TEST(Fleet, OperationsOfModelsAreNotMissedWhereNoneAreUsed) {
  const auto parts = [](FleetNeeds needs) {
    FleetParts made;
    made.device_kind = "cpu-virtual";
    made.devices = make_cpu_devices(2);
    made.needs = needs;
    made.make_ops = [](Device&) -> std::unique_ptr<Ops> {
      throw Error(Cause::environment_missing, "no library", "install it");
    };
    return made;
  };
  const auto communicators = [](const std::vector<Device*>& group) {
    return make_inproc_communicators(static_cast<int>(group.size()), 20);
  };
  const std::unique_ptr<Fleet> fleet = make_thread_fleet(parts(FleetNeeds::devices), communicators);
  std::atomic<int> ran{0};
  fleet->run(2, [&](RankContext& rank) { ran += rank.world_size; });
  EXPECT_EQ(ran, 4);
  EXPECT_THROW(fleet->run(1, [](RankContext& rank) { (*rank.ops).gemm().fuses_backward(1); }), Error);
  EXPECT_THROW(make_thread_fleet(parts(FleetNeeds::math), communicators), Error);
}

TEST(Fleet, OperationsAreMadeOnceForEachDevice) {
  std::atomic<int> made{0};
  FleetParts parts;
  parts.device_kind = "cpu-virtual";
  parts.devices = make_cpu_devices(2);
  parts.needs = FleetNeeds::devices;
  parts.make_ops = [&made](Device& device) {
    ++made;
    return make_cpu_ops(device, {});
  };
  const auto fleet = make_thread_fleet(std::move(parts), [](const std::vector<Device*>& group) {
    return make_inproc_communicators(static_cast<int>(group.size()), 20);
  });
  for (int run = 0; run < 2; ++run)
    fleet->run(2, [](RankContext& rank) {
      Ops* const first = &*rank.ops;
      EXPECT_EQ(first, &*rank.ops);
    });
  EXPECT_EQ(made, 2);
}

}  // namespace
}  // namespace amdahl
