// Commands against each other, on times that are drawn.
#include "report/compare/bench.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace amdahl {
namespace {

struct Drawn {
  int rounds = 10;
  double factor = 1;     // of the second command over the first
  double spread = 0.03;  // of a run
  double drift = 0.1;    // of the host, from the first round to the last
};

/// A host that becomes slower, runs with a long tail, and now and then a run that another program disturbs.
std::vector<Record> drawn_records(const Drawn& drawn, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::exponential_distribution<double> tail;
  std::vector<Record> records;
  for (int64_t round = 0; round < drawn.rounds; ++round)
    for (int64_t place = 0; place < 2; ++place) {
      double us = 1e4 * (1 + drawn.drift * static_cast<double>(round) / drawn.rounds);
      us *= 1 + drawn.spread * (std::abs(normal(random)) + tail(random));
      if (random() % 20 == 0) us *= 1.5;
      if (place == 1) us *= drawn.factor;
      Record record;
      record.kind = kBenchRecord;
      record.axes = {{kCommandAxis, std::string(place == 0 ? "a" : "b")}, {kProcessAxis, round}};
      record.series = {{"time", "us", {us}},
                       {"user_time", "us", {us / 2}},
                       {"system_time", "us", {us / 4}},
                       {"peak_memory", "bytes", {1e6}},
                       {"exit_code", "1", {place == 1 && round < 2 ? 3.0 : 0.0}},
                       {"place", "1", {static_cast<double>(place)}}};
      record.provenance.device_kind = "host";
      records.push_back(record);
    }
  return records;
}

TEST(Bench, EqualCommandsSeldomGetAVerdict) {
  int wrong = 0;
  constexpr int kTrials = 600;
  for (uint64_t seed = 0; seed < kTrials; ++seed) {
    const Drawn drawn{.rounds = 10 + static_cast<int>(seed % 3) * 20, .spread = 0.002 * std::pow(10.0, seed % 3)};
    const auto commands = bench_commands(drawn_records(drawn, seed), {"a", "b"});
    const Verdict verdict = commands[1].against_first->verdict;
    wrong += verdict == Verdict::faster || verdict == Verdict::slower;
  }
  EXPECT_LE(wrong, 0.05 * kTrials);
}

TEST(Bench, IntervalsHoldTheRatio) {
  int inside = 0, slower = 0;
  constexpr int kTrials = 400;
  for (uint64_t seed = 0; seed < kTrials; ++seed) {
    const auto commands = bench_commands(drawn_records({.rounds = 30, .factor = 1.3}, 5000 + seed), {"a", "b"});
    const PairTest& test = *commands[1].against_first;
    ASSERT_TRUE(test.ci);
    inside += test.ci->low <= 1 / 1.3 && 1 / 1.3 <= test.ci->high;
    slower += test.verdict == Verdict::slower;
  }
  EXPECT_GE(inside, 0.92 * kTrials);
  EXPECT_GE(slower, 0.98 * kTrials);
}

TEST(Bench, TheTableDividesAndTheVerdictNamesBoth) {
  const std::vector<Record> records = drawn_records({.rounds = 12, .factor = 2}, 3);
  const auto commands = bench_commands(records, bench_names(records));
  ASSERT_EQ(commands.size(), 2u);
  EXPECT_FALSE(commands[0].against_first);
  EXPECT_NEAR(commands[1].against_first->ratio, commands[0].time.estimate().value / commands[1].time.estimate().value,
              1e-12);
  EXPECT_EQ(commands[1].failed, 2);
  EXPECT_EQ(bench_verdict(commands).rfind("b is slower than a: 0.", 0), 0u) << bench_verdict(commands);
  const Page page = bench_page(records);
  EXPECT_EQ(page.sections[0].tables[0].table.rows.size(), 2u);
  EXPECT_EQ(page.sections[0].charts.size(), 1u);
}

TEST(Bench, ARecordWithoutItsCommandIsDamaged) {
  std::vector<Record> records = drawn_records({}, 1);
  records[3].axes.erase(kCommandAxis);
  EXPECT_THROW(bench_page(records), Error);
}

}  // namespace
}  // namespace amdahl
