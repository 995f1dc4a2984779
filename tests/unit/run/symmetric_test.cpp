// Symmetric memory between threads of one process, on CPU devices.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <random>
#include <thread>

#include "comm/world.h"
#include "symmetric/cpu_symmetric.h"
#include "symmetric/symmetric_heap.h"

namespace amdahl {
namespace {

constexpr double kTimeout = 20;
constexpr size_t kHeapBytes = size_t{1} << 20;
const std::vector<int> kWorlds{1, 2, 3, 4, 5, 6, 7, 8};

Deadline soon() { return Deadline::after_seconds(60); }

struct Rank {
  SymmetricHeap& heap;
  Stream& stream;
  int rank, world;
  void sync() const { stream.synchronize(soon()); }
  int next() const { return (rank + 1) % world; }
  int previous() const { return (rank + world - 1) % world; }
};

/// Runs fn on a thread per rank, each with a heap. The first error ends the waits of all.
void run_world(int world, double timeout_seconds, const std::function<void(const Rank&)>& fn,
               size_t heap_bytes = kHeapBytes) {
  const auto devices = make_cpu_devices(world);
  const auto comms = make_inproc_communicators(world, timeout_seconds);
  std::vector<std::unique_ptr<SymmetricHeap>> heaps(static_cast<size_t>(world));
  std::mutex mutex;
  run_rank_threads(
      world,
      [&](int rank) {
        const auto r = static_cast<size_t>(rank);
        auto heap = std::make_unique<SymmetricHeap>(*devices[r], *comms[r], heap_bytes, timeout_seconds);
        {
          std::lock_guard lock(mutex);
          heaps[r] = std::move(heap);
        }
        auto stream = devices[r]->make_stream("compute");
        fn({*heaps[r], *stream, rank, world});
        stream->synchronize(soon());
      },
      [&](const Error& error) {
        for (const auto& comm : comms) comm->abort(error);
        std::lock_guard lock(mutex);
        for (const auto& heap : heaps)
          if (heap) heap->abort();
      });
}

Error error_of(const std::function<void()>& fn) {
  try {
    fn();
  } catch (const Error& error) {
    return error;
  }
  return Error(Cause::internal, "no error was thrown");
}

std::vector<float> noise(int rank, size_t count) {
  std::mt19937 random(static_cast<unsigned>(rank) + 17);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> values(count);
  for (float& value : values) value = uniform(random);
  return values;
}

TEST(Symmetric, PutsAreSeenAfterABarrier) {
  constexpr size_t kCount = 4099;
  for (const int world : kWorlds)
    run_world(world, kTimeout, [&](const Rank& r) {
      const auto rows = r.heap.allocate<float>(kCount * static_cast<size_t>(world));
      const std::vector<float> own = noise(r.rank, kCount);
      for (int to = 0; to < world; ++to)
        r.heap.put(r.stream, {rows, kCount * static_cast<size_t>(r.rank), kCount}, own.data(), to);
      r.heap.barrier(r.stream);
      r.sync();
      for (int from = 0; from < world; ++from) {
        const float* row = r.heap.local(rows) + kCount * static_cast<size_t>(from);
        EXPECT_EQ(std::vector<float>(row, row + kCount), noise(from, kCount)) << from << " to " << r.rank;
      }
    });
}

TEST(Symmetric, GetsReadTheOtherRank) {
  for (const int world : {1, 2, 5})
    run_world(world, kTimeout, [&](const Rank& r) {
      const auto array = r.heap.allocate<float>(1000);
      const std::vector<float> own = noise(r.rank, 1000);
      r.heap.put(r.stream, {array, 0, 1000}, own.data(), r.rank);
      r.heap.barrier(r.stream);
      std::vector<float> got(900);
      r.heap.get(r.stream, got.data(), {array, 100, 900}, r.next());
      r.heap.barrier(r.stream);
      r.sync();
      const std::vector<float> wanted = noise(r.next(), 1000);
      EXPECT_EQ(got, std::vector<float>(wanted.begin() + 100, wanted.end()));
    });
}

/// A ring without a barrier: each round's values come with its signal, and the receiver says when they may be replaced.
TEST(Symmetric, SignalsCarryTheDataBeforeThem) {
  constexpr size_t kCount = 513;
  constexpr uint64_t kRounds = 100;
  for (const int world : {2, 3, 8})
    run_world(world, kTimeout, [&](const Rank& r) {
      const auto inbox = r.heap.allocate<uint64_t>(kCount);
      const auto signals = r.heap.allocate<Signal>(2);
      const SymmetricSlice<Signal> full{signals, 0, 1}, read{signals, 1, 1};
      std::vector<std::vector<uint64_t>> got(kRounds, std::vector<uint64_t>(kCount)), sent;
      for (uint64_t round = 1; round <= kRounds; ++round)
        sent.emplace_back(kCount, round * 100 + static_cast<uint64_t>(r.rank));
      for (uint64_t round = 1; round <= kRounds; ++round) {
        r.heap.put_signal(r.stream, {inbox, 0, kCount}, sent[round - 1].data(), full, round, r.next());
        r.heap.signal_wait(r.stream, full, round, r.previous());
        r.heap.get(r.stream, got[round - 1].data(), {inbox, 0, kCount}, r.rank);
        r.heap.put_signal(r.stream, SymmetricSlice<uint64_t>{inbox, 0, 0}, sent[0].data(), read, round, r.previous());
        r.heap.signal_wait(r.stream, read, round, r.next());
      }
      r.sync();
      for (uint64_t round = 1; round <= kRounds; ++round)
        ASSERT_EQ(got[round - 1], std::vector<uint64_t>(kCount, round * 100 + static_cast<uint64_t>(r.previous())))
            << "round " << round;
    });
}

TEST(Symmetric, FetchAddUnderContention) {
  constexpr int kWorld = 8;
  constexpr size_t kTimes = 500;
  std::vector<std::vector<uint64_t>> seen(kWorld, std::vector<uint64_t>(kTimes));
  run_world(kWorld, kTimeout, [&](const Rank& r) {
    const auto counter = r.heap.allocate<uint64_t>(1);
    for (uint64_t& old : seen[static_cast<size_t>(r.rank)]) r.heap.fetch_add(r.stream, {counter, 0, 1}, 1, 3, &old);
    r.heap.barrier(r.stream);
    r.sync();
    EXPECT_EQ(*r.heap.peer(counter, 3), kWorld * kTimes);
  });
  std::vector<uint64_t> all;  // every number once
  for (const auto& each : seen) {
    EXPECT_TRUE(std::is_sorted(each.begin(), each.end()));
    all.insert(all.end(), each.begin(), each.end());
  }
  std::sort(all.begin(), all.end());
  std::vector<uint64_t> wanted(kWorld * kTimes);
  std::iota(wanted.begin(), wanted.end(), 0);
  EXPECT_EQ(all, wanted);
}

/// No rank is past a barrier before all have reached it.
TEST(Symmetric, BarriersOfOneToEightRanks) {
  constexpr int kRounds = 50;
  for (const int world : kWorlds) {
    std::atomic<int> arrived{0};
    run_world(world, kTimeout, [&](const Rank& r) {
      std::mt19937 random(static_cast<unsigned>(r.rank));
      for (int round = 1; round <= kRounds; ++round) {
        if (random() % 8 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 200));
        arrived.fetch_add(1);
        r.heap.barrier(r.stream);
        r.sync();
        EXPECT_GE(arrived.load(), round * world);
      }
    });
    EXPECT_EQ(arrived.load(), kRounds * world);
  }
}

TEST(Symmetric, ADeadlineNamesTheLateRank) {
  for (const bool by_signal : {false, true}) {
    const auto begin = std::chrono::steady_clock::now();
    const Error error = error_of([&] {
      run_world(4, 0.3, [&](const Rank& r) {
        const auto signal = r.heap.allocate<Signal>(1);
        if (r.rank == 2) return;  // reaches neither
        if (by_signal)
          r.heap.signal_wait(r.stream, {signal, 0, 1}, 1, 2);
        else
          r.heap.barrier(r.stream);
        r.heap.barrier(r.stream);  // must not wait again
        r.sync();
      });
    });
    EXPECT_EQ(error.cause(), Cause::rank_hung) << error.what();
    EXPECT_EQ(error.rank(), 2) << error.what();
    EXPECT_NE(std::string(error.what())
                  .find(by_signal ? "rank 2 did not reach a signal within 0.3 s"
                                  : "rank 2 did not reach a barrier within 0.3 s"),
              std::string::npos)
        << error.what();
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begin;
    EXPECT_GT(waited.count(), 0.3);
    EXPECT_LT(waited.count(), 10);
  }
}

/// After a wait was given up, later rounds of the team fail at once.
TEST(Symmetric, ABrokenTeamStaysBroken) {
  const auto devices = make_cpu_devices(2);
  std::vector<Device*> pointers{devices[0].get(), devices[1].get()};
  std::vector<std::shared_ptr<Buffer>> buffers;
  for (Device* device : pointers) buffers.push_back(allocate_zeroed(*device, kTeamFlagBytes, soon()));
  WaitReport report{};
  const TeamView view = memory_of_buffers(pointers, buffers, 0, 0.2).view(&report);
  EXPECT_FALSE(symmetric_cpu::barrier(view));
  EXPECT_EQ(report.missing_rank, 2u);
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(symmetric_cpu::barrier(view));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(200));
}

TEST(Symmetric, AbortEndsWaits) {
  const auto begin = std::chrono::steady_clock::now();
  const Error error = error_of([&] {
    run_world(3, 60, [&](const Rank& r) {
      if (r.rank == 1) {
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        throw Error(Cause::check_failed, "rank 1 has found something");
      }
      r.heap.barrier(r.stream);
      r.sync();
    });
  });
  EXPECT_EQ(error.cause(), Cause::check_failed) << error.what();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

TEST(SymmetricHeap, ObjectsHaveTheSameOffsetAndAreApart) {
  run_world(3, kTimeout, [&](const Rank& r) {
    std::vector<SymmetricArray<char>> arrays;
    for (const size_t bytes : {size_t{1}, size_t{255}, size_t{256}, size_t{257}, size_t{0}, size_t{10'000}})
      arrays.push_back(r.heap.allocate<char>(bytes));
    for (size_t i = 0; i < arrays.size(); ++i) {
      EXPECT_EQ(arrays[i].range.offset % 256, 0u);
      EXPECT_GE(arrays[i].range.offset, sizeof(TeamFlags));
      for (size_t k = 0; k < i; ++k) EXPECT_GE(arrays[i].range.offset, arrays[k].range.offset + arrays[k].range.bytes);
      for (int peer = 0; peer < r.world; ++peer)
        EXPECT_EQ(r.heap.peer(arrays[i], peer) - r.heap.peer(arrays[0], peer),
                  r.heap.local(arrays[i]) - r.heap.local(arrays[0]));
    }
    EXPECT_EQ(r.heap.back_end(), "cpu");
    EXPECT_TRUE(r.heap.emulated());
  });
}

TEST(SymmetricHeap, FreedMemoryIsOnePieceAgainAndZeroed) {
  run_world(2, kTimeout, [&](const Rank& r) {
    const size_t all = r.heap.free_bytes();
    EXPECT_EQ(all, kHeapBytes);
    std::mt19937 random(5);  // the same on every rank
    for (int round = 0; round < 20; ++round) {
      std::vector<SymmetricArray<char>> arrays;
      for (int i = 0; i < 10; ++i) {
        arrays.push_back(r.heap.allocate<char>(random() % 50'000));
        char* own = r.heap.local(arrays.back());
        EXPECT_TRUE(std::all_of(own, own + arrays.back().size(), [](char c) { return c == 0; }));
        std::fill(own, own + arrays.back().size(), 'x');
      }
      std::shuffle(arrays.begin(), arrays.end(), random);
      for (const auto& array : arrays) r.heap.free(array);
      EXPECT_EQ(r.heap.free_bytes(), all);
    }
    EXPECT_EQ(r.heap.allocate<char>(kHeapBytes).size(), kHeapBytes);
  });
}

TEST(SymmetricHeap, ExhaustionIsAnErrorOnEveryRank) {
  std::atomic<int> refused{0};
  run_world(3, kTimeout, [&](const Rank& r) {
    const auto half = r.heap.allocate<char>(kHeapBytes / 2);
    for (const size_t count : {kHeapBytes / 8 + 1, SIZE_MAX / 2}) {
      const Error error = error_of([&] { r.heap.allocate<double>(count); });
      EXPECT_EQ(error.cause(), Cause::out_of_memory) << error.what();
      EXPECT_NE(std::string(error.what()).find("524288 are free"), std::string::npos) << error.what();
      refused.fetch_add(1);
    }
    r.heap.free(half);
    r.heap.allocate<double>(kHeapBytes / 8);
  });
  EXPECT_EQ(refused.load(), 6);
}

TEST(SymmetricHeap, RefusesWhatIsNotAllocated) {
  run_world(2, kTimeout, [&](const Rank& r) {
    const auto array = r.heap.allocate<float>(100);
    float value = 1;
    const auto expect_usage = [](const std::function<void()>& fn) {
      const Error error = error_of(fn);
      EXPECT_EQ(error.cause(), Cause::usage) << error.what();
    };
    expect_usage([&] { r.heap.peer(array, 2); });
    expect_usage([&] { r.heap.peer(array, -1); });
    expect_usage([&] { r.heap.put(r.stream, {array, 100, 1}, &value, 0); });
    expect_usage([&] { r.heap.get(r.stream, &value, {array, 1, SIZE_MAX}, 0); });
    expect_usage([&] { r.heap.local(SymmetricArray<float>{}); });
    r.heap.free(array);
    expect_usage([&] { r.heap.free(array); });
    expect_usage([&] { r.heap.local(array); });
    expect_usage([&] { r.heap.put(r.stream, {array, 0, 1}, &value, 0); });
    const auto again = r.heap.allocate<float>(100);  // at the same place: the old handle is refused all the same
    EXPECT_EQ(again.range.offset, array.range.offset);
    expect_usage([&] { r.heap.local(array); });
  });
}

TEST(SymmetricHeap, RanksThatAskDifferentlyAreTold) {
  const Error error =
      error_of([&] { run_world(2, kTimeout, [&](const Rank& r) { r.heap.allocate<char>(r.rank == 0 ? 100 : 200); }); });
  EXPECT_EQ(error.cause(), Cause::collective_mismatch) << error.what();
}

}  // namespace
}  // namespace amdahl
