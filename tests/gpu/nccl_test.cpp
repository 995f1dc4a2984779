// NCCL between all GPUs of this machine, one thread each: every collective, in graphs too, and its failures.
#include <algorithm>
#include <functional>
#include <thread>

#include "comm/world.h"
#include "gpu_support.h"

namespace amdahl {
namespace {

class NcclTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const Availability availability = nccl_availability();
    if (!availability.ok) GTEST_SKIP() << availability.reason;
    const int count = static_cast<int>(list_cuda_devices().size());
    if (count < 2) GTEST_SKIP() << "collectives need two GPUs, here is " << count;
    std::vector<int> indices;
    for (int i = 0; i < std::min(count, 8); ++i) indices.push_back(i);
    devices = make_cuda_devices(indices);
    std::vector<Device*> pointers;
    for (auto& device : devices) pointers.push_back(device.get());
    comms = make_nccl_communicators(pointers, 60);
    for (auto& device : devices) streams.push_back(device->make_stream("comm"));
  }
  void TearDown() override {
    comms.clear();
    streams.clear();
    devices.clear();
  }

  int world() const { return static_cast<int>(devices.size()); }
  /// Exactly representable, different for every rank and place.
  static std::vector<float> values(int rank, int64_t n) {
    std::vector<float> v(static_cast<size_t>(n));
    for (size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>((rank + 1) * 100 + static_cast<int>(i % 97));
    return v;
  }
  void run(const std::function<void(int rank, Device&, Stream&, Communicator&)>& work) {
    run_rank_threads(
        world(),
        [&](int rank) {
          const auto at = static_cast<size_t>(rank);
          devices[at]->bind_thread();
          work(rank, *devices[at], *streams[at], *comms[at]);
        },
        [&](const Error& cause) { comms[0]->abort(cause); });
  }

  std::vector<std::unique_ptr<Device>> devices;
  std::vector<std::unique_ptr<Stream>> streams;
  std::vector<std::unique_ptr<Communicator>> comms;
};

TEST_F(NcclTest, ReducesBroadcastsGathersAndScatters) {
  for (int64_t n : {int64_t{1}, int64_t{1000}, int64_t{3'000'000}})
    run([&](int rank, Device& device, Stream& stream, Communicator& comm) {
      const int size = world();
      std::vector<float> sum(static_cast<size_t>(n)), all;
      for (int from = 0; from < size; ++from) {
        const std::vector<float> part = values(from, n);
        for (size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
        all.insert(all.end(), part.begin(), part.end());
      }
      GpuArray<float> data(device, stream, values(rank, n));
      comm.all_reduce(data.data(), static_cast<size_t>(n), DType::f32, ReduceOp::sum, stream);
      EXPECT_EQ(data.get(), sum);
      data.set(values(rank, n));
      comm.all_reduce(data.data(), static_cast<size_t>(n), DType::f32, ReduceOp::max, stream);
      EXPECT_EQ(data.get(), values(size - 1, n));
      const int root = size - 1;
      data.set(values(rank, n));
      comm.reduce(data.data(), static_cast<size_t>(n), DType::f32, ReduceOp::sum, root, stream);
      EXPECT_EQ(data.get(), rank == root ? sum : values(rank, n));
      data.set(values(rank, n));
      comm.broadcast(data.data(), static_cast<size_t>(n), DType::f32, 1, stream);
      EXPECT_EQ(data.get(), values(1, n));
      data.set(values(rank, n));
      GpuArray<float> gathered(device, stream, n * size);
      comm.all_gather(data.data(), gathered.data(), static_cast<size_t>(n), DType::f32, stream);
      EXPECT_EQ(gathered.get(), all);
      GpuArray<float> part(device, stream, n);
      comm.scatter(rank == 1 ? gathered.data() : nullptr, part.data(), static_cast<size_t>(n), DType::f32, 1, stream);
      EXPECT_EQ(part.get(), values(rank, n));
      comm.reduce_scatter(gathered.data(), gathered.data() + rank * n, static_cast<size_t>(n), DType::f32,
                          ReduceOp::sum, stream);
      std::vector<float> reduced = all;
      for (auto i = static_cast<size_t>(rank * n); i < static_cast<size_t>((rank + 1) * n); ++i)
        reduced[i] *= static_cast<float>(size);
      EXPECT_EQ(gathered.get(), reduced);
    });
  EXPECT_EQ(comms[0]->traffic().num_calls, 21u);
}

TEST_F(NcclTest, SendsAlongAChain) {
  run([&](int rank, Device& device, Stream& stream, Communicator& comm) {
    GpuArray<float> data(device, stream, values(0, 5000));
    if (rank > 0) comm.recv(data.data(), 5000, DType::f32, rank - 1, stream);
    if (rank + 1 < world()) comm.send(data.data(), 5000, DType::f32, rank + 1, stream);
    EXPECT_EQ(data.get(), values(0, 5000));
  });
}

TEST_F(NcclTest, ReplicasEndBitEqual) {
  std::vector<std::vector<float>> results(static_cast<size_t>(world()));
  run([&](int rank, Device& device, Stream& stream, Communicator& comm) {
    GpuArray<float> data(device, stream, random_floats(1'000'003, static_cast<uint32_t>(rank)));
    comm.all_reduce(data.data(), 1'000'003, DType::f32, ReduceOp::sum, stream);
    results[static_cast<size_t>(rank)] = data.get();
  });
  for (const auto& result : results) EXPECT_EQ(result, results[0]);
}

TEST_F(NcclTest, RunsInsideGraphs) {
  run([&](int rank, Device& device, Stream& stream, Communicator& comm) {
    constexpr int64_t kCount = 10'000;
    auto compute = device.make_stream("compute");
    auto fork = device.make_event(), join = device.make_event(), start = device.make_event(), end = device.make_event();
    GpuArray<float> data(device, stream, values(rank, kCount));
    comm.all_reduce(data.data(), kCount, DType::f32, ReduceOp::max, stream);  // connects outside the capture
    data.set(values(rank, kCount));
    {
      auto graph = device.capture(*compute, [&] {
        compute->record(*fork);
        stream.wait(*fork);
        stream.stamp(*start);
        comm.all_reduce(data.data(), kCount, DType::f32, ReduceOp::max, stream);
        stream.stamp(*end);
        stream.record(*join);
        compute->wait(*join);
      });
      for (int replay = 0; replay < 3; ++replay) {
        data.set(values(rank, kCount));
        graph->launch(*compute);
        compute->synchronize(Deadline::after_seconds(30));
        EXPECT_EQ(data.get(), values(world() - 1, kCount));
        EXPECT_GT(device.elapsed_us(*start, *end), 0.0);
      }
      comm.barrier(Deadline::after_seconds(30));
    }
  });
}

TEST_F(NcclTest, RegisteredBuffersGiveTheSameResults) {
  for (const Registration how : {Registration::buffer, Registration::window})
    for (const size_t count : {size_t{1}, size_t{1000}, size_t{3'000'000}})
      run([&](int rank, Device& device, Stream& stream, Communicator& comm) {
        const Deadline deadline = Deadline::after_seconds(60);
        const auto send = comm.allocate_registered({count * sizeof(float), how, deadline});
        const auto recv = comm.allocate_registered({count * sizeof(float), how, deadline});
        const std::vector<float> mine = values(rank, static_cast<int64_t>(count));
        std::vector<float> sum(count), got(count);
        for (int from = 0; from < world(); ++from) {
          const std::vector<float> part = values(from, static_cast<int64_t>(count));
          for (size_t i = 0; i < count; ++i) sum[i] += part[i];
        }
        device.copy_in(stream, send->data(), mine.data(), count * sizeof(float));
        comm.all_reduce(send->data(), recv->data(), count, DType::f32, ReduceOp::sum, stream);
        device.copy_out(stream, got.data(), recv->data(), count * sizeof(float));
        stream.synchronize(deadline);
        EXPECT_EQ(got, sum) << to_string(how) << " " << count;
        comm.barrier(deadline);  // nobody lets go of memory that a peer may still reach
      });
}

TEST_F(NcclTest, ARegisteredBufferWithoutRoomOnOneRankIsRefusedOnAll) {
  std::vector<Cause> causes(static_cast<size_t>(world()), Cause::internal);
  run([&](int rank, Device&, Stream&, Communicator& comm) {
    const size_t bytes = rank == 0 ? size_t{1} << 50 : size_t{4096};
    try {
      comm.allocate_registered({bytes, Registration::window, Deadline::after_seconds(60)});
    } catch (const Error& error) {
      causes[static_cast<size_t>(rank)] = error.cause();
    }
    comm.barrier(Deadline::after_seconds(30));
  });
  for (const Cause cause : causes) EXPECT_EQ(cause, Cause::out_of_memory);
}

TEST_F(NcclTest, ARankThatRegistersAloneIsToldInTime) {
  try {
    run([&](int rank, Device&, Stream&, Communicator& comm) {
      if (rank == 0) comm.allocate_registered({4096, Registration::window, Deadline::after_seconds(2)});
    });
    FAIL() << "a registration of one rank alone ended well";
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::rank_hung) << error.what();
  }
}

TEST_F(NcclTest, ExchangesMessages) {
  run([&](int rank, Device&, Stream&, Communicator& comm) {
    for (int round = 0; round < 3; ++round) {
      const auto messages = comm.exchange(std::to_string(rank * 10 + round), Deadline::after_seconds(30));
      ASSERT_EQ(messages.size(), static_cast<size_t>(world()));
      for (int from = 0; from < world(); ++from)
        EXPECT_EQ(messages[static_cast<size_t>(from)], std::to_string(from * 10 + round));
    }
  });
}

TEST_F(NcclTest, PartsOfTheRanksAreCommunicatorsToo) {
  for (int round = 0; round < 2; ++round)
    run([&](int rank, Device& device, Stream& stream, Communicator& comm) {
      const Deadline deadline = Deadline::after_seconds(60);
      const auto part = comm.split(rank % 2, -rank, deadline);
      std::vector<int> members;
      for (int each = world() - 1; each >= 0; --each)
        if (each % 2 == rank % 2) members.push_back(each);
      ASSERT_EQ(part->world_size(), static_cast<int>(members.size()));
      EXPECT_EQ(members[static_cast<size_t>(part->rank())], rank);
      std::vector<float> sum(1000);
      for (const int member : members) {
        const std::vector<float> theirs = values(member, 1000);
        for (size_t i = 0; i < sum.size(); ++i) sum[i] += theirs[i];
      }
      GpuArray<float> data(device, stream, values(rank, 1000));
      part->all_reduce(data.data(), 1000, DType::f32, ReduceOp::sum, stream);
      EXPECT_EQ(data.get(), sum);
      part->barrier(deadline);
    });
}

TEST_F(NcclTest, ARankThatNeverComesEndsTheOthersInTime) {
  const auto begin = std::chrono::steady_clock::now();
  try {
    run([&](int rank, Device& device, Stream& stream, Communicator& comm) {
      GpuArray<float> data(device, stream, values(rank, 1000));
      comm.all_reduce(data.data(), 1000, DType::f32, ReduceOp::sum, stream);
      stream.synchronize(Deadline::after_seconds(30));
      if (rank == 0) return;
      comm.all_reduce(data.data(), 1000, DType::f32, ReduceOp::sum, stream);
      stream.synchronize(Deadline::after_seconds(2));
    });
    FAIL() << "a collective without rank 0 ended well";
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::rank_hung) << error.what();
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
  EXPECT_THROW(comms[0]->all_reduce(nullptr, 0, DType::f32, ReduceOp::sum, *streams[0]), Error);
  EXPECT_THROW(comms[0]->barrier(Deadline::after_seconds(1)), Error);
}

}  // namespace
}  // namespace amdahl
