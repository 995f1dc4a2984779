// Programs started from this one: words and variables of any content, many at once, and what cannot be started.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <random>

#include "base/child_process.h"
#include "errors.h"
#include "temporary_folder.h"

namespace amdahl {
namespace {

constexpr const char* kShell = "/bin/sh";

Deadline long_enough() { return Deadline::after_seconds(30); }

size_t open_descriptors() {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
}

TEST(ChildProcessEdges, WordsAndVariablesArriveAsTheyAre) {
  std::mt19937 random(131);
  const std::string script = "printf '%s\\n' \"$V1\"; for word in \"$@\"; do printf '[%s]' \"$word\"; done";
  for (int trial = 0; trial < 20; ++trial) {
    ChildCommand command{kShell, {"-c", script, "name"}, {}};
    std::string expected;
    const auto odd = [&] {
      std::string text;
      for (uint32_t left = random() % 12; left > 0; --left) text += "a \"'$\\`*;|&<>~\n\té"[random() % 17];
      return text;
    };
    command.environment["V1"] = odd();
    expected = command.environment["V1"] + "\n";
    for (uint32_t left = random() % 5; left > 0; --left) {
      command.arguments.push_back(odd());
      expected += "[" + command.arguments.back() + "]";
    }
    EXPECT_EQ(run_children({command}, long_enough(), {})[0].out, expected);
  }
}

TEST(ChildProcessEdges, NothingOfThisEnvironmentIsPassedOn) {
  ASSERT_EQ(::setenv("AMDAHL_TEST_SECRET", "seen", 1), 0);
  const auto results =
      run_children({{kShell, {"-c", "echo \"<$AMDAHL_TEST_SECRET$HOME>\"; cat"}, {}}}, long_enough(), {});
  ::unsetenv("AMDAHL_TEST_SECRET");
  EXPECT_EQ(results[0].out, "<>\n") << "and its input is empty";
}

TEST(ChildProcessEdges, ResultsAreInTheOrderOfTheCommands) {
  std::vector<ChildCommand> commands;
  for (int i = 0; i < 12; ++i)
    commands.push_back({kShell, {"-c", fmt::format("sleep 0.0{}; echo {}; exit 0", (7 * i) % 10, i)}, {}});
  const auto results = run_children(commands, long_enough(), {});
  ASSERT_EQ(results.size(), commands.size());
  for (int i = 0; i < 12; ++i) EXPECT_EQ(results[static_cast<size_t>(i)].out, fmt::format("{}\n", i));
  EXPECT_TRUE(run_children({}, long_enough(), {}).empty());
}

TEST(ChildProcessEdges, EveryExitCodeAndSignalIsTold) {
  std::vector<ChildCommand> commands;
  for (const int code : {0, 1, 2, 77, 126, 127, 255})
    commands.push_back({kShell, {"-c", fmt::format("exit {}", code)}, {}});
  for (const int signal : {SIGKILL, SIGTERM, SIGSEGV, SIGABRT})
    commands.push_back({kShell, {"-c", fmt::format("ulimit -c 0; kill -{} $$", signal)}, {}});
  const auto results = run_children(commands, long_enough(), {});
  size_t at = 0;
  for (const int code : {0, 1, 2, 77, 126, 127, 255}) {
    EXPECT_EQ(results[at].end, ChildResult::End::exited);
    EXPECT_EQ(results[at++].code, code);
  }
  for (const int signal : {SIGKILL, SIGTERM, SIGSEGV, SIGABRT}) {
    EXPECT_EQ(results[at].end, ChildResult::End::signalled);
    EXPECT_EQ(results[at++].code, signal);
  }
}

TEST(ChildProcessEdges, WhatCannotBeStartedIsNamedAndTheOthersEnd) {
  const TestFolder folder;
  const std::string no_program = folder.write("text", "no program"), marker = (folder / "still-here").string();
  ::chmod(no_program.c_str(), 0600);
  const std::string broken = folder.write("broken",
                                          "\x7f"
                                          "ELF is not enough");
  ::chmod(broken.c_str(), 0700);
  const auto start = std::chrono::steady_clock::now();
  for (const std::string& program : {no_program, broken, folder.path().string(), std::string(""), no_program + "/x"}) {
    const Error error = error_of([&] {
      run_children({{kShell, {"-c", "exec sleep 30"}, {}}, {program, {}, {}}}, long_enough(), {});
    });
    EXPECT_EQ(error.cause(), Cause::environment_missing) << error.line();
    EXPECT_NE(error.line().find(program + " does not start: "), std::string::npos) << error.line();
    EXPECT_FALSE(error.remedy().empty());
  }
  const std::string too_long(8 << 20, 'x');
  const Error error = error_of([&] { run_children({{kShell, {"-c", "exit 0", too_long}, {}}}, long_enough(), {}); });
  EXPECT_NE(error.line().find("Argument list too long"), std::string::npos) << error.line();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(15)) << "nobody waited for the sleepers";
}

TEST(ChildProcessEdges, NoDescriptorIsLeftOpenOrPassedOn) {
  const size_t before = open_descriptors();
  for (int i = 0; i < 20; ++i) {
    run_children({{kShell, {"-c", "exit 1"}, {}}, {kShell, {"-c", "exit 0"}, {}}}, long_enough(), {});
    static_cast<void>(error_of([] { run_children({{"/not/there", {}, {}}}, long_enough(), {}); }));
  }
  EXPECT_EQ(open_descriptors(), before);
  const auto seen =
      run_children({{kShell, {"-c", "ls /proc/self/fd"}, {{"PATH", "/usr/bin:/bin"}}}}, long_enough(), {});
  size_t inherited = 0;  // by this process, from whoever started it
  for (int fd = 0; fd < 1024; ++fd) inherited += ::fcntl(fd, F_GETFD) == 0;
  EXPECT_EQ(static_cast<size_t>(std::count(seen[0].out.begin(), seen[0].out.end(), '\n')), inherited + 1)
      << "and the folder that ls reads: " << seen[0].out;
}

TEST(ChildProcessEdges, AFailureGivesTheOthersTimeToSayWhy) {
  const auto results =
      run_children({{kShell, {"-c", "exit 4"}, {}},
                    {kShell, {"-c", "sleep 0.2; echo the other is gone >&2; exit 6"}, {{"PATH", "/usr/bin:/bin"}}}},
                   long_enough(), {});
  EXPECT_EQ(results[0].code, 4);
  EXPECT_EQ(results[1].end, ChildResult::End::exited);
  EXPECT_EQ(results[1].code, 6);
  EXPECT_EQ(results[1].err, "the other is gone\n");
}

TEST(ChildProcessEdges, AnEndAtTheDeadlineKeepsWhatWasSaid) {
  const auto results =
      run_children({{kShell, {"-c", "echo begun; trap 'echo told; exit 9' TERM; while :; do :; done"}, {}}},
                   Deadline::after_seconds(0.2), {});
  EXPECT_EQ(results[0].end, ChildResult::End::late);
  EXPECT_EQ(results[0].out, "begun\ntold\n");
}

}  // namespace
}  // namespace amdahl
