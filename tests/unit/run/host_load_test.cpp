#include "device/host_load.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace amdahl {
namespace {

TEST(HostLoad, ReadsTheFirstLineOfProcStat) {
  const auto ticks = detail::stat_ticks("cpu  160163 20 20398 60765 1371 3 164 133 40 50\ncpu0 1 2 3 4 5 6 7 8 9 10\n");
  EXPECT_EQ(ticks.busy, 160163 + 20 + 20398 + 3 + 164);  // idle, waiting for disks and guests (in user already) are not
  EXPECT_EQ(ticks.stolen, 133);
  EXPECT_LT(detail::stat_ticks("").busy, 0);
  EXPECT_LT(detail::stat_ticks("intr 1 2 3 4 5 6 7 8").busy, 0);
}

HostLoad load(double busy, double own, double waited, double stolen = 0) { return {busy, stolen, own, waited}; }

TEST(HostLoad, WhatOthersTookIsAtMostWhatTheyRanAndWhatTheJobWaited) {
  const auto lost = [](std::vector<ProcessLoad> processes) { return contention_of(processes)->lost_us(); };
  EXPECT_EQ(lost({{1, 1, load(100, 100, 50)}}), 0);  // its threads waited for each other
  EXPECT_EQ(lost({{1, 1, load(190, 100, 0)}}), 0);   // another program, on a processor that was free
  EXPECT_EQ(lost({{1, 1, load(190, 100, 60)}}), 60);
  EXPECT_EQ(lost({{1, 1, load(130, 100, 60)}}), 30);
  EXPECT_EQ(lost({{1, 1, load(90, 100, 60)}}), 0);  // ticks
  EXPECT_EQ(lost({{1, 1, load(100, 100, 0, 25)}}), 25);
}

TEST(HostLoad, RanksOfOneHostAreOneJob) {
  // Two processes that take turns on one processor: each sees the other run, and neither is disturbed.
  EXPECT_EQ(contention_of(std::vector<ProcessLoad>{{1, 1, load(100, 50, 50)}, {2, 1, load(100, 50, 50)}})->lost_us(),
            0);
  // Two threads of one process have read the same; two hosts have a load each, and the worst counts.
  const std::vector<ProcessLoad> ranks{
      {1, 1, load(130, 100, 60)}, {1, 1, load(130, 100, 60)}, {1, 2, load(150, 100, 45)}};
  EXPECT_EQ(contention_of(ranks)->lost_us(), 45);
  EXPECT_EQ(contention_of(ranks)->others_us, 50);
}

TEST(HostLoad, WithoutAReadingThereIsNothing) {
  EXPECT_FALSE(contention_of(std::vector<ProcessLoad>{{1, 1, HostLoad{}}}));
  EXPECT_FALSE(contention_of({}));
  EXPECT_FALSE((HostLoad{} - HostLoad{}).known());
}

TEST(HostLoad, ThreadsOfThisProcessAreCounted) {
  const HostLoad before = read_host_load();
  if (!before.known()) GTEST_SKIP() << "this host has no /proc/stat or no schedstat";
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;  // more than there are processors: they wait for each other
  for (unsigned i = 0; i < 2 * std::thread::hardware_concurrency() + 1; ++i)
    threads.emplace_back([&] {
      while (!stop) {
      }
    });
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const HostLoad during = read_host_load() - before;
  stop = true;
  for (auto& thread : threads) thread.join();
  EXPECT_GT(during.own_us, 50e3);
  EXPECT_GT(during.waited_us, 100e3);
  EXPECT_GT(during.busy_us, 50e3);
}

}  // namespace
}  // namespace amdahl
