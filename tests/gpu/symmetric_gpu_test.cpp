// One-sided operations between all GPUs of this machine, or partitions of one, in stream order and in graphs.
#include <chrono>
#include <numeric>
#include <thread>

#include "comm/world.h"
#include "several_gpus.h"
#include "symmetric/symmetric_heap.h"

namespace amdahl {
namespace {

constexpr size_t kCount = 10'007;

/// After the flags of each rank's region.
struct Shared {
  uint64_t values[kCount];
  uint64_t counter;
  Signal full;
};
constexpr size_t kValues = kTeamFlagBytes + offsetof(Shared, values),
                 kCounter = kTeamFlagBytes + offsetof(Shared, counter), kFull = kTeamFlagBytes + offsetof(Shared, full);

class SymmetricGpuTest : public SeveralGpusTest {
 protected:
  void join(double timeout_seconds) {
    memory_ = shared_zeros(kTeamFlagBytes + sizeof(Shared), timeout_seconds);
    sides_.clear(), received_.clear(), sent_.clear();
    for (size_t r = 0; r < world(); ++r) {
      sides_.push_back(make_one_sided(*devices_[r], memory_[r]));
      sent_.push_back(array<uint64_t>(r, numbers(r)));
      received_.push_back(array<uint64_t>(r, std::vector<uint64_t>(kCount, 7)));
    }
  }
  void TearDown() override {
    sides_.clear(), sent_.clear(), received_.clear(), memory_.clear();
    SeveralGpusTest::TearDown();
  }
  static std::vector<uint64_t> numbers(size_t rank) {
    std::vector<uint64_t> values(kCount);
    std::iota(values.begin(), values.end(), rank << 32);
    return values;
  }
  size_t next(size_t rank) const { return (rank + 1) % world(); }
  size_t previous(size_t rank) const { return (rank + world() - 1) % world(); }
  static int as_rank(size_t rank) { return static_cast<int>(rank); }
  /// Whether fetch_add reaches rank 0 from everywhere.
  bool has_atomics() {
    for (size_t r = 0; r < world(); ++r) try {
        sides_[r]->fetch_add(*streams_[r], kCounter, 0, 0, nullptr);
      } catch (const Error& error) {
        EXPECT_EQ(error.cause(), Cause::environment_missing) << error.what();
        return false;
      }
    return true;
  }

  std::vector<SymmetricMemory> memory_;
  std::vector<std::unique_ptr<OneSided>> sides_;
  std::vector<std::unique_ptr<GpuArray<uint64_t>>> sent_, received_;
};

TEST_F(SymmetricGpuTest, SignalsArriveAfterTheDataBeforeThem) {
  join(20);
  std::vector<std::unique_ptr<Stream>> others;  // a wait holds a rank's stream: its put goes by another
  for (auto& device : devices_) others.push_back(device->make_stream("put"));
  for (size_t r = 0; r < world(); ++r) {
    sides_[r]->signal_wait(*streams_[r], kFull, 1, as_rank(previous(r)));
    devices_[r]->copy_within(*streams_[r], received_[r]->data(), memory_[r].own<char>() + kValues,
                             kCount * sizeof(uint64_t));
    sides_[r]->put(*others[r], kValues, sent_[r]->data(), kCount * sizeof(uint64_t), as_rank(next(r)));
    sides_[r]->signal(*others[r], kFull, 1, as_rank(next(r)));
  }
  synchronize();
  for (size_t r = 0; r < world(); ++r) EXPECT_EQ(received_[r]->get(), numbers(previous(r))) << "rank " << r;
  EXPECT_EQ(memory_[0].emulated, list_cuda_devices().size() < 2);
  sides_.clear();  // before the streams
}

TEST_F(SymmetricGpuTest, GetsBetweenBarriers) {
  join(20);
  for (size_t r = 0; r < world(); ++r) {
    sides_[r]->put(*streams_[r], kValues, sent_[r]->data(), kCount * sizeof(uint64_t), as_rank(r));
    sides_[r]->quiet(*streams_[r]);
    sides_[r]->barrier(*streams_[r]);
    sides_[r]->get(*streams_[r], received_[r]->data(), kValues, kCount * sizeof(uint64_t), as_rank(next(r)));
    sides_[r]->barrier(*streams_[r]);
  }
  synchronize();
  for (size_t r = 0; r < world(); ++r) EXPECT_EQ(received_[r]->get(), numbers(next(r))) << "rank " << r;
}

/// Barriers of replays go on counting: no replay's read is before all additions of that replay, or after one of the
/// next.
TEST_F(SymmetricGpuTest, BarriersAndFetchAddInReplayedGraphs) {
  constexpr uint64_t kReplays = 50;
  join(20);
  if (!has_atomics()) GTEST_SKIP() << "the GPUs have no atomics on each other's memory";
  const auto graphs = graphs_of([&](size_t r) {
    sides_[r]->fetch_add(*streams_[r], kCounter, 3, 0, received_[r]->data() + 1);
    sides_[r]->barrier(*streams_[r]);
    sides_[r]->get(*streams_[r], received_[r]->data(), kCounter, sizeof(uint64_t), 0);
    sides_[r]->barrier(*streams_[r]);
  });
  for (uint64_t replay = 1; replay <= kReplays; ++replay)
    for (size_t r = 0; r < world(); ++r) graphs[r]->launch(*streams_[r]);
  synchronize();
  std::vector<uint64_t> before;
  for (size_t r = 0; r < world(); ++r) {
    const std::vector<uint64_t> got = received_[r]->get();
    EXPECT_EQ(got[0], 3 * kReplays * world()) << "rank " << r;
    before.push_back(got[1]);
  }
  std::sort(before.begin(), before.end());  // of the last replay, in whatever order
  for (size_t i = 0; i < world(); ++i) EXPECT_EQ(before[i], 3 * ((kReplays - 1) * world() + i));
}

TEST_F(SymmetricGpuTest, ALateRankIsNamedAndTheTeamStaysBroken) {
  join(0.5);
  const auto begin = std::chrono::steady_clock::now();
  for (int round = 0; round < 20; ++round)  // later ones must not wait again
    for (size_t r = 0; r + 1 < world(); ++r) sides_[r]->barrier(*streams_[r]);
  expect_a_missing_rank();
  sides_.clear();
  const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begin;
  EXPECT_GT(waited.count(), 0.5);
  EXPECT_LT(waited.count(), 5);
}

TEST_F(SymmetricGpuTest, AbortEndsAWait) {
  join(60);
  const auto begin = std::chrono::steady_clock::now();
  sides_[0]->signal_wait(*streams_[0], kFull, 1, 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  sides_[0]->abort();
  streams_[0]->synchronize(Deadline::after_seconds(30));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

TEST_F(SymmetricGpuTest, HeapsOfRankThreads) {
  const auto comms = make_inproc_communicators(as_rank(world()), 20);
  run_rank_threads(
      as_rank(world()),
      [&](int rank) {
        const auto r = static_cast<size_t>(rank);
        SymmetricHeap heap(*devices_[r], *comms[r], 1 << 20, 20);
        EXPECT_EQ(heap.back_end(), "cuda_p2p");
        const auto rows = heap.allocate<uint64_t>(kCount);
        const auto signals = heap.allocate<Signal>(1);
        const auto sent = array<uint64_t>(r, numbers(r));
        const auto received = array<uint64_t>(r, std::vector<uint64_t>(kCount));
        comms[r]->barrier(Deadline::after_seconds(20));  // no rank waits in a kernel while another allocates
        heap.put_signal(*streams_[r], {rows, 0, kCount}, sent->data(), {signals, 0, 1}, 1, as_rank(next(r)));
        heap.signal_wait(*streams_[r], {signals, 0, 1}, 1, as_rank(previous(r)));
        heap.get(*streams_[r], received->data(), {rows, 0, kCount}, rank);
        heap.barrier(*streams_[r]);
        streams_[r]->synchronize(Deadline::after_seconds(60));
        EXPECT_EQ(received->get(), numbers(previous(r))) << "rank " << rank;
        heap.free(rows);
      },
      [&](const Error& error) {
        for (const auto& comm : comms) comm->abort(error);
      });
}

}  // namespace
}  // namespace amdahl
