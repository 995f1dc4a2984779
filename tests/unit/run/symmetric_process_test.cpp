// Symmetric memory between processes: children of the test that map the same segment.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <vector>

#include "symmetric/cpu_symmetric.h"
#include "symmetric/symmetric_memory.h"

namespace amdahl {
namespace {

/// After the flags of each rank's region.
struct Shared {
  uint64_t values[1000];
  Signal full;
  uint64_t counter;
};
constexpr size_t kBytes = kTeamFlagBytes + sizeof(Shared);

Shared* shared_of(const TeamView& view) { return reinterpret_cast<Shared*>(view.base[view.rank] + kTeamFlagBytes); }

class SymmetricProcessTest : public ::testing::Test {
 protected:
  /// Runs fn as each rank, in a process of its own; each one's exit code, that of fn, or 100 for an error.
  std::vector<int> run_processes(int world, double timeout_seconds, const std::function<int(const TeamView&)>& fn) {
    const std::string name = fmt::format("/amdahl-test-{}", getpid());
    // Made by a process that is no rank: its mapping keeps the segment until all have ended.
    const SymmetricMemory made = map_segment(name, Team::first(world, 0), kBytes, timeout_seconds, true);
    std::vector<pid_t> children;
    std::fflush(nullptr);  // or the children write it, too
    for (int rank = 0; rank < world; ++rank) {
      children.push_back(fork());
      if (children.back() != 0) continue;
      int code = 100;
      try {
        const SymmetricMemory memory = map_segment(name, Team::first(world, rank), kBytes, timeout_seconds, false);
        WaitReport report{};
        code = fn(memory.view(&report));
        if (report.missing_rank != 0) code = 50 + static_cast<int>(report.missing_rank) - 1;
      } catch (...) {
      }
      _exit(code);
    }
    std::vector<int> codes;
    for (const pid_t child : children) {
      int status = 0;
      waitpid(child, &status, 0);
      codes.push_back(WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    }
    unlink_segment(name);
    EXPECT_EQ(shm_open(name.c_str(), O_RDWR, 0), -1) << "the name is still there";
    return codes;
  }
};

TEST_F(SymmetricProcessTest, RingWithSignalsAndBarriers) {
  const auto codes = run_processes(4, 30, [](const TeamView& view) {
    using namespace symmetric_cpu;
    Shared* own = shared_of(view);
    const int next = (view.rank + 1) % view.size, previous = (view.rank + view.size - 1) % view.size;
    for (uint64_t round = 1; round <= 200; ++round) {
      const std::vector<uint64_t> sent(1000, round * 10 + static_cast<uint64_t>(view.rank));
      put_signal(view, own->values, sent.data(), sizeof(own->values), &own->full, round, next);
      if (!wait_until(view, &own->full, round, previous)) return 1;
      for (const uint64_t value : own->values)
        if (value != round * 10 + static_cast<uint64_t>(previous)) return 2;
      uint64_t last = 0;
      if (!barrier(view)) return 3;
      get(view, &last, &own->values[999], sizeof(last), next);
      if (last != round * 10 + static_cast<uint64_t>(view.rank)) return 4;
      if (!barrier(view)) return 3;
    }
    return 0;
  });
  EXPECT_EQ(codes, std::vector<int>(4, 0));
}

TEST_F(SymmetricProcessTest, FetchAddOverProcesses) {
  const auto codes = run_processes(3, 30, [](const TeamView& view) {
    using namespace symmetric_cpu;
    for (int i = 0; i < 10'000; ++i) fetch_add(view, &shared_of(view)->counter, 1, 0);
    if (!barrier(view)) return 1;
    uint64_t sum = 0;
    get(view, &sum, &shared_of(view)->counter, sizeof(sum), 0);
    return sum == 30'000 ? 0 : 2;
  });
  EXPECT_EQ(codes, std::vector<int>(3, 0));
}

TEST_F(SymmetricProcessTest, AProcessThatDiesIsNamed) {
  const auto codes = run_processes(3, 0.5, [](const TeamView& view) {
    if (view.rank == 1) _exit(7);
    return symmetric_cpu::barrier(view) ? 1 : 2;
  });
  EXPECT_EQ(codes, (std::vector<int>{51, 7, 51}));
}

TEST_F(SymmetricProcessTest, SegmentsThatAreNotThereOrOfAnotherSizeAreRefused) {
  const std::string name = fmt::format("/amdahl-test-{}", getpid());
  const auto cause_of = [&](int world, size_t bytes, bool create) {
    try {
      map_segment(name, Team::first(world, 0), bytes, 1, create);
    } catch (const Error& error) {
      return error.cause();
    }
    return Cause::internal;
  };
  EXPECT_EQ(cause_of(2, 100, false), Cause::environment_missing);
  const SymmetricMemory memory = map_segment(name, Team::first(2, 0), 100, 1, true);
  EXPECT_EQ(cause_of(2, 100, true), Cause::environment_missing);  // exists
  EXPECT_EQ(cause_of(3, 100, false), Cause::collective_mismatch);
  unlink_segment(name);
  EXPECT_EQ(cause_of(2, size_t{1} << 50, true), Cause::out_of_memory);
  EXPECT_EQ(cause_of(2, SIZE_MAX, true), Cause::out_of_memory);
  EXPECT_EQ(cause_of(2, 100, false), Cause::environment_missing) << "a segment without room is still there";
  EXPECT_EQ(cause_of(kMaxTeamRanks + 1, 100, true), Cause::usage);
}

}  // namespace
}  // namespace amdahl
