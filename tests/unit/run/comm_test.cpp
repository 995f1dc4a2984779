#include "comm/communicator.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <random>

#include "comm/reduce_kernels.h"
#include "comm/world.h"
#include "device/cpu_stream.h"
#include "errors.h"
#include "waits.h"

namespace amdahl {
namespace {

constexpr double kTimeoutSeconds = 20;
const std::vector<int> kWorlds{1, 2, 3, 4, 7};
const std::vector<size_t> kCounts{0, 1, 7, 63, 65, 1000, 100'003};

/// Runs fn(rank, communicator, stream) on a thread per rank and synchronizes each stream.
void run_world(int world, double timeout, const std::function<void(int, Communicator&, Stream&)>& fn) {
  const auto devices = make_cpu_devices(world);
  const auto comms = make_inproc_communicators(world, timeout);
  run_rank_threads(
      world,
      [&](int rank) {
        auto stream = devices[static_cast<size_t>(rank)]->make_stream("comm");
        fn(rank, *comms[static_cast<size_t>(rank)], *stream);
        stream->synchronize(soon());
      },
      [&](const Error& error) {
        for (const auto& comm : comms) comm->abort(error);
      });
}

/// Small integers, exact in every type: sums over 7 ranks stay below 2^8.
template <class T>
std::vector<T> random_values(int rank, size_t count) {
  std::mt19937 random(static_cast<unsigned>(1234 + rank));
  std::vector<T> values(count);
  for (T& value : values) value = static_cast<T>(random() % 32);
  return values;
}

template <class T>
void check_all_reduce(DType type, ReduceOp op) {
  for (const int world : kWorlds)
    for (const size_t count : kCounts) {
      std::vector<T> expected = random_values<T>(0, count);
      for (int rank = 1; rank < world; ++rank) {
        const auto values = random_values<T>(rank, count);
        for (size_t i = 0; i < count; ++i)
          expected[i] =
              op == ReduceOp::sum ? static_cast<T>(expected[i] + values[i]) : std::max(expected[i], values[i]);
      }
      run_world(world, kTimeoutSeconds, [&](int rank, Communicator& comm, Stream& stream) {
        auto data = random_values<T>(rank, count);
        comm.all_reduce(data.data(), count, type, op, stream);
        stream.synchronize(soon());
        EXPECT_EQ(data, expected) << "rank " << rank << " of " << world << ", count " << count;
        EXPECT_EQ(comm.traffic().payload_bytes, count * size_of(type));
      });
    }
}

TEST(InprocAllReduce, SumsEveryType) {
  check_all_reduce<float>(DType::f32, ReduceOp::sum);
  check_all_reduce<double>(DType::f64, ReduceOp::sum);
  check_all_reduce<int32_t>(DType::i32, ReduceOp::sum);
  check_all_reduce<int64_t>(DType::i64, ReduceOp::sum);
  check_all_reduce<uint8_t>(DType::u8, ReduceOp::sum);
}

TEST(InprocAllReduce, TakesTheMaximum) {
  check_all_reduce<float>(DType::f32, ReduceOp::max);
  check_all_reduce<int64_t>(DType::i64, ReduceOp::max);
}

TEST(InprocAllReduce, AddsInRankOrderWithEqualBitsEverywhere) {
  constexpr int kWorld = 4;
  constexpr size_t kCount = 10'001;
  std::vector<std::vector<float>> inputs(kWorld, std::vector<float>(kCount)), outputs(kWorld);
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  for (auto& input : inputs)
    for (float& value : input) value = normal(random) * 1e3f;
  std::vector<float> expected = inputs[0];
  for (int rank = 1; rank < kWorld; ++rank)
    for (size_t i = 0; i < kCount; ++i) expected[i] += inputs[static_cast<size_t>(rank)][i];
  run_world(kWorld, kTimeoutSeconds, [&](int rank, Communicator& comm, Stream& stream) {
    auto& data = outputs[static_cast<size_t>(rank)] = inputs[static_cast<size_t>(rank)];
    comm.all_reduce(data.data(), kCount, DType::f32, ReduceOp::sum, stream);
    stream.synchronize(soon());
  });
  for (const auto& output : outputs) EXPECT_EQ(std::memcmp(output.data(), expected.data(), kCount * 4), 0);
}

TEST(ReduceKernels, HalfTypesConvertExactlyAndAccumulateInFloat) {
  // Every finite half and bfloat plus zero is itself: the conversions lose nothing.
  std::vector<uint16_t> bits(65536), zero(65536, 0), out(65536);
  std::iota(bits.begin(), bits.end(), static_cast<uint16_t>(0));
  const auto add_zero = [&](DType type) {
    const void* sources[] = {zero.data(), bits.data()};
    void* destinations[] = {out.data()};
    reduce_in_order({sources, destinations, 0, bits.size(), type, ReduceOp::sum});
  };
  for (const auto& [type, exponent] : {std::pair{DType::f16, 0x7c00}, std::pair{DType::bf16, 0x7f80}}) {
    add_zero(type);
    for (size_t i = 0; i < bits.size(); ++i) {
      if ((bits[i] & exponent) == exponent && (bits[i] & 0x7fff) != exponent) {
        EXPECT_EQ(out[i] & exponent, exponent);  // NaN stays NaN
      } else if (bits[i] != 0x8000) {            // 0 + -0 is 0
        ASSERT_EQ(out[i], bits[i]) << "type " << static_cast<int>(type);
      }
    }
  }
  // 1 + 3 * 2^-11 in f16: each term alone would round away, their float sum does not. 65,504 + 65,504 overflows.
  const uint16_t one = 0x3c00, tiny = 0x1000, big = 0x7bff;
  uint16_t sum = 0;
  void* destination[] = {&sum};
  const void* small[] = {&one, &tiny, &tiny, &tiny};
  reduce_in_order({small, destination, 0, 1, DType::f16, ReduceOp::sum});
  EXPECT_EQ(sum, 0x3c02);  // 1.00146 rounds to 1 + 2 * 2^-10 (tie to even)
  const void* large[] = {&big, &big};
  reduce_in_order({large, destination, 0, 1, DType::f16, ReduceOp::sum});
  EXPECT_EQ(sum, 0x7c00);
}

TEST(ReduceKernels, SharesCoverEverythingOnce) {
  for (const int world : kWorlds)
    for (const size_t count : kCounts) {
      size_t next = 0;
      for (int rank = 0; rank < world; ++rank) {
        const ElementRange share = share_of(count, rank, world);
        EXPECT_EQ(share.begin, next);
        next = share.end;
      }
      EXPECT_EQ(next, count);
    }
}

TEST(InprocCollectives, ReduceBroadcastGatherScatter) {
  for (const int world : kWorlds)
    for (const size_t count : kCounts) {
      const int root = world - 1;
      const auto w = static_cast<size_t>(world);
      run_world(world, kTimeoutSeconds, [&](int rank, Communicator& comm, Stream& stream) {
        const auto mine = static_cast<int32_t>(rank + 1);
        std::vector<int32_t> reduced(count, mine), sent(count, mine), gathered(count * w), all(count * w), part(count);
        for (size_t i = 0; i < all.size(); ++i) all[i] = rank == root ? static_cast<int32_t>(i) : -1;
        comm.reduce(reduced.data(), count, DType::i32, ReduceOp::sum, root, stream);
        comm.broadcast(sent.data(), count, DType::i32, root, stream);
        comm.all_gather(&mine, gathered.data(), count ? 1 : 0, DType::i32, stream);
        comm.scatter(all.data(), part.data(), count, DType::i32, root, stream);
        stream.synchronize(soon());
        EXPECT_EQ(reduced, std::vector<int32_t>(count, rank == root ? world * (world + 1) / 2 : mine));
        EXPECT_EQ(sent, std::vector<int32_t>(count, root + 1));
        for (size_t i = 0; count && i < w; ++i) EXPECT_EQ(gathered[i], static_cast<int32_t>(i) + 1);
        for (size_t i = 0; i < count; ++i)
          ASSERT_EQ(part[i], static_cast<int32_t>(static_cast<size_t>(rank) * count + i));
      });
    }
}

TEST(InprocCollectives, ReduceScatterInPlaceAndBeside) {
  for (const int world : kWorlds)
    for (const size_t count : kCounts) {
      const auto w = static_cast<size_t>(world);
      std::vector<float> sum(count * w);
      for (int rank = 0; rank < world; ++rank) {
        const auto values = random_values<float>(rank, count * w);
        for (size_t i = 0; i < sum.size(); ++i) sum[i] += values[i];
      }
      run_world(world, kTimeoutSeconds, [&](int rank, Communicator& comm, Stream& stream) {
        const auto own = static_cast<std::ptrdiff_t>(static_cast<size_t>(rank) * count);
        auto data = random_values<float>(rank, count * w), kept = data;
        std::vector<float> part(count, -1);
        comm.reduce_scatter(data.data(), part.data(), count, DType::f32, ReduceOp::sum, stream);
        comm.reduce_scatter(data.data(), data.data() + own, count, DType::f32, ReduceOp::sum, stream);
        stream.synchronize(soon());
        const std::vector<float> expected(sum.begin() + own, sum.begin() + own + static_cast<std::ptrdiff_t>(count));
        EXPECT_EQ(part, expected);
        std::copy(expected.begin(), expected.end(), kept.begin() + own);
        EXPECT_EQ(data, kept);
        EXPECT_EQ(comm.traffic().payload_bytes, 2 * count * sizeof(float));
      });
    }
}

TEST(InprocCollectives, SendAndReceiveAroundARing) {
  run_world(4, kTimeoutSeconds, [](int rank, Communicator& comm, Stream& stream) {
    std::vector<int64_t> token(1000, rank), from_left(1000);
    for (int round = 0; round < 20; ++round) {
      const int right = (rank + 1) % 4, left = (rank + 3) % 4;
      if (rank % 2 == 0) comm.send(token.data(), token.size(), DType::i64, right, stream);
      comm.recv(from_left.data(), from_left.size(), DType::i64, left, stream);
      if (rank % 2 == 1) comm.send(token.data(), token.size(), DType::i64, right, stream);
    }
    stream.synchronize(soon());
    EXPECT_EQ(from_left, std::vector<int64_t>(1000, (rank + 3) % 4));
  });
}

TEST(InprocCollectives, StayInCallOrderAcrossStreams) {
  run_world(2, kTimeoutSeconds, [](int rank, Communicator& comm, Stream& stream) {
    auto other = stream.device().make_stream("other");
    std::vector<float> a(100, 1), b(50, 2);
    if (rank == 0) as_cpu(stream).enqueue([] { std::this_thread::sleep_for(std::chrono::milliseconds(20)); });
    comm.all_reduce(a.data(), a.size(), DType::f32, ReduceOp::sum, stream);
    comm.all_reduce(b.data(), b.size(), DType::f32, ReduceOp::sum, *other);
    stream.synchronize(soon());
    other->synchronize(soon());
    EXPECT_EQ(a[99], 2);
    EXPECT_EQ(b[49], 4);
  });
}

TEST(InprocCollectives, ExchangeGivesEveryMessageInRankOrder) {
  run_world(3, kTimeoutSeconds, [](int rank, Communicator& comm, Stream&) {
    for (int round = 0; round < 50; ++round) {
      const auto messages = comm.exchange(std::to_string(rank * 100 + round), soon());
      EXPECT_EQ(messages, (std::vector<std::string>{std::to_string(round), std::to_string(100 + round),
                                                    std::to_string(200 + round)}));
      comm.barrier(soon());
    }
  });
}

TEST(InprocFailures, AMismatchNamesTheRankAndBothCalls) {
  const Error error = error_of([] {
    run_world(3, kTimeoutSeconds, [](int rank, Communicator& comm, Stream& stream) {
      std::vector<float> data(10);
      comm.all_reduce(data.data(), 10, DType::f32, ReduceOp::sum, stream);
      if (rank == 1)
        comm.broadcast(data.data(), 4, DType::f32, 0, stream);
      else
        comm.all_reduce(data.data(), 10, DType::f32, ReduceOp::sum, stream);
      stream.synchronize(soon());
    });
  });
  EXPECT_EQ(error.cause(), Cause::collective_mismatch);
  for (const char* part : {"rank 1 called broadcast #2 (4 x f32, 16 bytes, root 0)", "rank 0 called all_reduce #2"})
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
}

TEST(InprocFailures, ReceivingAnotherSizeThanSentIsAMismatch) {
  const Error error = error_of([] {
    run_world(2, kTimeoutSeconds, [](int rank, Communicator& comm, Stream& stream) {
      std::vector<float> data(10);
      if (rank == 0)
        comm.send(data.data(), 10, DType::f32, 1, stream);
      else
        comm.recv(data.data(), 9, DType::f32, 0, stream);
      stream.synchronize(soon());
    });
  });
  EXPECT_EQ(error.cause(), Cause::collective_mismatch) << error.what();
}

TEST(InprocFailures, AMissingRankIsNamedAtTheDeadline) {
  const auto start = Deadline::Clock::now();
  const Error error = error_of([] {
    run_world(3, 0.2, [](int rank, Communicator& comm, Stream& stream) {
      std::vector<float> data(1024);
      if (rank == 2) return;
      comm.all_reduce(data.data(), 1024, DType::f32, ReduceOp::sum, stream);
      stream.synchronize(soon());
    });
  });
  EXPECT_EQ(error.cause(), Cause::rank_hung);
  EXPECT_NE(std::string(error.what()).find("rank 2 did not reach all_reduce #1 (1,024 x f32, 4,096 bytes, sum)"),
            std::string::npos)
      << error.what();
  EXPECT_LT(Deadline::Clock::now() - start, std::chrono::seconds(2));
}

TEST(InprocFailures, TheDeadlineCountsFromWhenTheStreamReachesTheCall) {
  run_world(2, 0.2, [](int, Communicator& comm, Stream& stream) {
    float value = 1;
    as_cpu(stream).enqueue([] { std::this_thread::sleep_for(std::chrono::milliseconds(400)); });
    comm.all_reduce(&value, 1, DType::f32, ReduceOp::sum, stream);
    stream.synchronize(soon());
    EXPECT_EQ(value, 2);
  });
}

TEST(InprocFailures, AnExceptionOfOneRankEndsTheWaitsOfTheOthersAndNamesIt) {
  for (const bool control_plane : {false, true}) {
    const Error error = error_of([&] {
      run_world(4, kTimeoutSeconds, [&](int rank, Communicator& comm, Stream& stream) {
        std::vector<float> data(4096);
        if (rank == 3) throw Error(Cause::non_finite, "loss is NaN");
        if (control_plane) comm.barrier(soon());
        comm.all_reduce(data.data(), data.size(), DType::f32, ReduceOp::sum, stream);
        stream.synchronize(soon());
      });
    });
    EXPECT_EQ(error.cause(), Cause::non_finite);
    EXPECT_EQ(error.rank(), 3);
    EXPECT_STREQ(error.what(), "loss is NaN");
  }
}

TEST(InprocFailures, AbortInTheMiddleOfTrafficIsSafe) {
  for (int round = 0; round < 30; ++round) {
    const Error error = error_of([&] {
      run_world(4, kTimeoutSeconds, [&](int rank, Communicator& comm, Stream& stream) {
        auto data = std::make_unique<std::vector<float>>(20'000, 1.0f);  // freed at once: ASan and TSan watch
        for (int call = 0; call < 200; ++call) {
          if (rank == 1 && call == 10 + round) throw Error(Cause::interrupted, "stop");
          comm.all_reduce(data->data(), data->size(), DType::f32, ReduceOp::sum, stream);
          stream.synchronize(soon());
        }
      });
    });
    EXPECT_EQ(error.cause(), Cause::interrupted);
    EXPECT_EQ(error.rank(), 1);
  }
}

TEST(InprocFailures, RefusesRanksOutsideTheWorld) {
  const auto devices = make_cpu_devices(1);
  auto stream = devices[0]->make_stream("comm");
  auto comms = make_inproc_communicators(2, kTimeoutSeconds);
  float value = 0;
  EXPECT_THROW(comms[0]->broadcast(&value, 1, DType::f32, 2, *stream), Error);
  EXPECT_THROW(comms[0]->send(&value, 1, DType::f32, 0, *stream), Error);
  EXPECT_THROW(make_inproc_communicators(0, kTimeoutSeconds), Error);
}

TEST(RankThreads, TurnsAnyExceptionIntoAnErrorWithItsRank) {
  const Error error = error_of([] {
    run_rank_threads(
        3,
        [](int rank) {
          if (rank == 1) throw std::runtime_error("odd");
        },
        nullptr);
  });
  EXPECT_EQ(error.cause(), Cause::internal);
  EXPECT_EQ(error.rank(), 1);
  int aborts = 0;
  EXPECT_THROW(run_rank_threads(
                   3, [](int) { throw Error(Cause::usage, "all"); }, [&](const Error&) { ++aborts; }),
               Error);
  EXPECT_EQ(aborts, 1);
}

}  // namespace
}  // namespace amdahl
