// Programs started from this one: their output, their environment, and their end in time.
#include "base/child_process.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>

#include "amdahl/error.h"

namespace amdahl {
namespace {

ChildCommand shell(const std::string& script) { return {"/bin/sh", {"-c", script}, {{"GREETING", "hello"}}}; }

int64_t own_peak_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

TEST(ChildProcess, OutputExitCodeAndEnvironmentAreItsOwn) {
  const auto results = run_children({shell("echo $GREETING $HOME; echo no >&2; exit 3"), shell("kill -9 $$")},
                                    Deadline::after_seconds(20), {});
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(results[0].out, "hello\n");
  EXPECT_EQ(results[0].err, "no\n");
  EXPECT_EQ(results[0].code, 3);
  EXPECT_EQ(results[1].end, ChildResult::End::signalled);
  EXPECT_EQ(results[1].code, 9);
}

TEST(ChildProcess, TimesAndMemoryAreItsOwn) {
  ChildCommand quiet = shell("echo nothing; exec sleep 0.1");
  quiet.keeps_output = false;
  const auto results = run_children({quiet, shell("i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; exit 1")},
                                    Deadline::after_seconds(20), {});
  EXPECT_EQ(results[0].out, "");
  EXPECT_GE(results[0].wall_us, 1e5);
  EXPECT_LT(results[0].user_us, 5e4);
  EXPECT_GT(results[1].user_us + results[1].system_us, 1e3);
  EXPECT_LE(results[1].user_us, 1.5 * results[1].wall_us + 2e4);  // accounted in ticks
  for (const ChildResult& result : results) {
    EXPECT_GT(result.peak_bytes, 100'000);
    EXPECT_LT(result.peak_bytes, own_peak_bytes() + 50'000'000);  // fork begins with this process's memory
  }
}

TEST(ChildProcess, LargeOutputIsWhole) {
  const auto results = run_children({shell("i=0; while [ $i -lt 20000 ]; do echo 0123456789; i=$((i+1)); done")},
                                    Deadline::after_seconds(30), {});
  EXPECT_EQ(results[0].out.size(), 220000u);
}

TEST(ChildProcess, TheDeadlineEndsWhatStillRuns) {
  const auto start = std::chrono::steady_clock::now();
  const auto results =
      run_children({shell("exec sleep 60"), shell("trap '' TERM; while :; do :; done"), shell("exit 0")},
                   Deadline::after_seconds(1.5), {});
  EXPECT_LT(seconds_since(start), 10);
  EXPECT_EQ(results[0].end, ChildResult::End::late);
  EXPECT_EQ(results[1].end, ChildResult::End::late);
  EXPECT_EQ(results[2].end, ChildResult::End::exited);
}

TEST(ChildProcess, StopsWhenAsked) {
  const auto start = std::chrono::steady_clock::now();
  const auto results = run_children({shell("exec sleep 60")}, Deadline::after_seconds(60),
                                    [start] { return seconds_since(start) > 0.2; });
  EXPECT_EQ(results[0].end, ChildResult::End::late);
  EXPECT_LT(seconds_since(start), 10);
}

TEST(ChildProcess, AProgramThatIsNotThereIsNamed) {
  try {
    run_children({{"/nowhere/at/all", {}, {}}}, Deadline::after_seconds(5), {});
    FAIL() << "started a program that is not there";
  } catch (const Error& error) {
    EXPECT_NE(error.line().find("/nowhere/at/all"), std::string::npos);
  }
}

}  // namespace
}  // namespace amdahl
