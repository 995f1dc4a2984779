// Collectives in symmetric memory between threads: the same bits as the in-process communicator, under any order of
// arrival, over many rounds and over the wrap of the round numbers; errors that name the rank.
#include "symmetric/symmetric_collectives.h"

#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <thread>

#include "comm/collective_data.h"
#include "comm/collective_table.h"
#include "comm/world.h"
#include "errors.h"
#include "waits.h"

namespace amdahl {
namespace {

using Body = std::function<void(int, Communicator&, Stream&)>;

struct SymmetricWorld {
  explicit SymmetricWorld(int size, const SymmetricOptions& options = {}, double timeout = 20)
      : devices(make_cpu_devices(size)) {
    std::vector<Device*> all;
    for (const auto& device : devices) all.push_back(device.get());
    comms = make_symmetric_communicators(all, make_inproc_communicators(size, timeout), timeout, options);
  }

  /// Runs body on a thread per rank and synchronizes each stream.
  void run(const Body& body) {
    run_rank_threads(
        static_cast<int>(devices.size()),
        [&](int rank) {
          const auto stream = devices[static_cast<size_t>(rank)]->make_stream("comm");
          body(rank, *comms[static_cast<size_t>(rank)], *stream);
          stream->synchronize(Deadline::after_seconds(120));
        },
        [&](const Error& error) {
          for (const auto& comm : comms) comm->abort(error);
        });
  }

  std::vector<std::unique_ptr<Device>> devices;
  std::vector<std::unique_ptr<Communicator>> comms;
};

SymmetricOptions only(SymmetricAlgorithm algorithm) {
  SymmetricOptions options;
  options.all_reduce = algorithm;
  return options;
}

const std::vector<SymmetricAlgorithm> kAlgorithms{SymmetricAlgorithm::automatic, SymmetricAlgorithm::flagged,
                                                  SymmetricAlgorithm::one_shot, SymmetricAlgorithm::two_shot};

/// The collective's receive buffers by rank. Send buffers have random bytes that are finite in every type.
std::vector<std::vector<char>> results_of(std::vector<std::unique_ptr<Communicator>>& comms,
                                          std::vector<std::unique_ptr<Device>>& devices, const CollectiveRow& row,
                                          DType type, ReduceOp op, size_t elements) {
  const auto world = static_cast<int>(comms.size());
  const CollectiveShape shape = row.shape(elements, world);
  std::vector<std::vector<char>> received(comms.size());
  run_rank_threads(
      world,
      [&](int rank) {
        const auto r = static_cast<size_t>(rank);
        std::mt19937 random(static_cast<unsigned>(rank) + 91);
        std::vector<char> send(shape.send * size_of(type));
        for (size_t i = 0; i < send.size(); ++i)  // exponents of floats stay below infinity
          send[i] = static_cast<char>(random() & (i % size_of(type) + 1 == size_of(type) ? 0xb3 : 0xff));
        received[r].assign(shape.recv * size_of(type), 0x11);
        const auto stream = devices[r]->make_stream("comm");
        row.run(*comms[r], {send.data(), received[r].data(), shape.call, type, op, world - 1}, *stream);
        stream->synchronize(soon());
      },
      [&](const Error& error) {
        for (const auto& comm : comms) comm->abort(error);
      });
  return received;
}

TEST(SymmetricCollectives, GiveTheBitsOfTheInProcessOnes) {
  for (const int size : {2, 3}) {
    SymmetricWorld world(size);
    auto inproc = make_inproc_communicators(size, 20);
    for (const CollectiveRow& row : collective_table())
      for (const DType type : {DType::f32, DType::bf16})
        for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg})
          for (const size_t elements : {size_t{0}, size_t{1}, size_t{199}, size_t{300'017}}) {
            if (op != ReduceOp::sum && (!row.reduces || elements != 199)) continue;
            EXPECT_EQ(results_of(world.comms, world.devices, row, type, op, elements),
                      results_of(inproc, world.devices, row, type, op, elements))
                << row.name << " " << to_string(type) << " " << to_string(op) << " " << elements << " of " << size;
          }
  }
}

TEST(SymmetricCollectives, EveryAlgorithmAddsInRankOrder) {
  const CollectiveRow& row = find_collective("all_reduce");
  for (const int size : {1, 2, 3, 5})
    for (const SymmetricAlgorithm algorithm : kAlgorithms) {
      SymmetricWorld world(size, only(algorithm));
      auto inproc = make_inproc_communicators(size, 20);
      for (const DType type : {DType::f32, DType::f16, DType::u8})
        for (const size_t count : {0, 1, 3, 255, 1025, size == 3 ? 300'001 : 20'001})
          EXPECT_EQ(results_of(world.comms, world.devices, row, type, ReduceOp::sum, count),
                    results_of(inproc, world.devices, row, type, ReduceOp::sum, count))
              << to_string(algorithm) << " " << to_string(type) << " " << count << " of " << size;
    }
}

/// Replays of one call with new data: a rank that is a round ahead must not overwrite what another still reads.
void replay(SymmetricWorld& world, size_t count, int rounds, bool pauses) {
  const auto size = static_cast<int>(world.devices.size());
  world.run([&](int rank, Communicator& comm, Stream& stream) {
    std::mt19937 random(static_cast<unsigned>(rank));
    constexpr int kBatch = 500;
    std::vector<std::vector<int32_t>> data(kBatch, std::vector<int32_t>(count));
    for (int done = 0; done < rounds; done += kBatch) {
      for (int i = 0; i < kBatch; ++i) {
        std::fill(data[static_cast<size_t>(i)].begin(), data[static_cast<size_t>(i)].end(), (done + i) * 10 + rank);
        comm.all_reduce(data[static_cast<size_t>(i)].data(), count, DType::i32, ReduceOp::sum, stream);
      }
      stream.synchronize(Deadline::after_seconds(120));
      for (int i = 0; i < kBatch; ++i)
        ASSERT_EQ(data[static_cast<size_t>(i)],
                  std::vector<int32_t>(count, (done + i) * 10 * size + size * (size - 1) / 2))
            << "round " << done + i;
      if (pauses && random() % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
    }
  });
}

TEST(SymmetricCollectives, AHundredThousandReplays) {
  for (const SymmetricAlgorithm algorithm : {SymmetricAlgorithm::flagged, SymmetricAlgorithm::one_shot}) {
    SymmetricWorld world(2, only(algorithm));
    replay(world, 16, 100'000, true);
  }
}

TEST(SymmetricCollectives, RoundNumbersWrap) {
  constexpr uint64_t kAll = ~uint64_t{0};
  for (const SymmetricAlgorithm algorithm : kAlgorithms)
    for (const uint64_t first : {kFlagPeriod - 7, kFlagPeriod * 3 - 8, kAll - 5, kAll - 6}) {
      SymmetricOptions options = only(algorithm);
      options.first_epoch = first;
      for (const int size : {2, 3}) {
        SymmetricWorld world(size, options);
        replay(world, algorithm == SymmetricAlgorithm::automatic ? 20'000 : 40, 500, false);
      }
    }
}

TEST(SymmetricCollectives, MessagesOfAnySizeInARing) {
  for (const int size : {2, 3, 5}) {
    SymmetricWorld world(size);
    world.run([&](int rank, Communicator& comm, Stream& stream) {
      const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
      for (const size_t count : {0, 1, 1000, 70'001}) {
        std::vector<int32_t> out(count, rank), in(count, -1), in2(count, -1);
        comm.send_recv(out.data(), next, in.data(), previous, count, DType::i32, stream);
        stream.synchronize(soon());
        const auto other = stream.device().make_stream("receive");
        comm.recv(in2.data(), count, DType::i32, previous, *other);
        comm.send(out.data(), count, DType::i32, next, stream);
        stream.synchronize(soon());
        other->synchronize(soon());
        EXPECT_EQ(in, std::vector<int32_t>(count, previous));
        EXPECT_EQ(in2, std::vector<int32_t>(count, previous));
      }
    });
  }
}

TEST(SymmetricCollectives, CallsOnSeveralStreamsKeepTheirOrder) {
  SymmetricWorld world(3);
  world.run([&](int rank, Communicator& comm, Stream& stream) {
    const auto other = stream.device().make_stream("comm2");
    std::mt19937 random(static_cast<unsigned>(rank));  // ranks choose different streams
    std::vector<std::vector<float>> data(200, std::vector<float>(100));
    for (size_t i = 0; i < data.size(); ++i) {
      std::fill(data[i].begin(), data[i].end(), static_cast<float>(i) + static_cast<float>(rank));
      comm.all_reduce(data[i].data(), 100, DType::f32, ReduceOp::sum, random() % 2 ? stream : *other);
    }
    stream.synchronize(soon());
    other->synchronize(soon());
    for (size_t i = 0; i < data.size(); ++i)
      EXPECT_EQ(data[i], std::vector<float>(100, 3 * static_cast<float>(i) + 3)) << i;
  });
}

TEST(SymmetricCollectives, PartsHaveMemoryOfTheirOwn) {
  SymmetricWorld world(5);
  world.run([&](int rank, Communicator& comm, Stream& stream) {
    const auto part = comm.split(rank % 2, -rank, soon());
    EXPECT_EQ(part->backend_name(), "symmetric");
    int32_t sum = rank, all = 1;
    part->all_reduce(&sum, 1, DType::i32, ReduceOp::sum, stream);
    comm.all_reduce(&all, 1, DType::i32, ReduceOp::sum, stream);
    stream.synchronize(soon());
    EXPECT_EQ(sum, rank % 2 == 0 ? 6 : 4);
    EXPECT_EQ(all, 5);
    comm.barrier(soon());
  });
}

TEST(SymmetricCollectives, DifferentCallsAreNamedAtOnce) {
  for (const SymmetricAlgorithm algorithm : kAlgorithms)
    for (const bool other_kind : {false, true}) {
      SymmetricWorld world(3, only(algorithm), 60);
      const auto begin = std::chrono::steady_clock::now();
      const Error error = error_of([&] {
        world.run([&](int rank, Communicator& comm, Stream& stream) {
          std::vector<float> data(40'000, 1.0f);
          comm.all_reduce(data.data(), 100, DType::f32, ReduceOp::sum, stream);
          if (rank == 1 && other_kind)
            comm.broadcast(data.data(), 100, DType::f32, 1, stream);
          else
            comm.all_reduce(data.data(), rank == 1 ? 99 : 100, DType::f32, ReduceOp::sum, stream);
          stream.synchronize(soon());
          comm.all_reduce(data.data(), 40'000, DType::f32, ReduceOp::sum, stream);
          stream.synchronize(soon());
        });
      });
      EXPECT_EQ(error.cause(), Cause::collective_mismatch) << error.what();
      EXPECT_NE(std::string(error.what()).find("rank 1 called"), std::string::npos) << error.what();
      EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
    }
  SymmetricWorld world(2, {}, 60);
  const Error error = error_of([&] {
    world.run([&](int rank, Communicator& comm, Stream& stream) {
      std::vector<float> data(100);
      if (rank == 0)
        comm.send(data.data(), 100, DType::f32, 1, stream);
      else
        comm.recv(data.data(), 50, DType::f32, 0, stream);
      stream.synchronize(soon());
      comm.barrier(soon());
    });
  });
  EXPECT_EQ(error.cause(), Cause::collective_mismatch) << error.what();
}

TEST(SymmetricCollectives, ADeadlineNamesTheLateRanks) {
  for (const SymmetricAlgorithm algorithm : kAlgorithms) {
    SymmetricWorld world(4, only(algorithm), 0.3);
    const Error error = error_of([&] {
      world.run([&](int rank, Communicator& comm, Stream& stream) {
        float value = 1;
        if (rank == 2) return;
        comm.all_reduce(&value, 1, DType::f32, ReduceOp::sum, stream);
        stream.synchronize(soon());
      });
    });
    EXPECT_EQ(error.cause(), Cause::rank_hung) << error.what();
    EXPECT_EQ(error.rank(), 2) << error.what();
    EXPECT_NE(std::string(error.what()).find("rank 2 did not reach all_reduce #1"), std::string::npos) << error.what();
  }
}

TEST(SymmetricCollectives, AFailureOfAnotherRankEndsWaits) {
  SymmetricWorld world(3, {}, 60);
  const auto begin = std::chrono::steady_clock::now();
  const Error error = error_of([&] {
    world.run([&](int rank, Communicator& comm, Stream& stream) {
      const auto part = comm.split(rank == 2 ? 1 : 0, 0, soon());
      if (rank == 1) throw Error(Cause::check_failed, "rank 1 has found something");
      float value = 1;
      part->all_reduce(&value, 1, DType::f32, ReduceOp::sum, stream);
      comm.all_reduce(&value, 1, DType::f32, ReduceOp::sum, stream);
      stream.synchronize(soon());
    });
  });
  EXPECT_EQ(error.cause(), Cause::check_failed) << error.what();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

TEST(SymmetricCollectives, RefuseTeamsThatAreTooLarge) {
  const Error error = error_of([&] { SymmetricWorld world(17); });
  EXPECT_EQ(error.cause(), Cause::usage) << error.what();
}

}  // namespace
}  // namespace amdahl
