// Comparisons between processes: the arithmetic on small sets, and simulated trials of the promises that docs/method.md
// makes for them. Seeds are fixed; the rates are recorded as test properties.
#include "stats/processes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <vector>

#include "base/philox.h"

namespace amdahl {
namespace {

// One standard normal number for each (trial, side, process, run).
double normal(uint32_t trial, uint32_t side, uint32_t process, uint32_t run) {
  const Philox4 bits = philox(2026, trial, side, process, run);
  const double radius = std::sqrt(-2 * std::log((bits.v[0] + 1.0) / 4294967296.0));
  return radius * std::cos(2 * std::numbers::pi * (bits.v[1] / 4294967296.0));
}

// Where a run of a side is slower by chance: now and then a run takes much longer, as on a shared machine.
struct Noise {
  double between = 0.01;  // processes
  double within = 0.005;  // runs
  double stragglers = 0;  // share of runs that take 20 % longer
};

ProcessSamples side_of(uint32_t trial, uint32_t side, int processes, int runs, const Noise& noise, double factor) {
  ProcessSamples samples;
  for (uint32_t p = 0; p < static_cast<uint32_t>(processes); ++p)
    for (uint32_t r = 0; r < static_cast<uint32_t>(runs); ++r) {
      const bool late = philox(7, trial, side, p, r).v[2] < noise.stragglers * 4294967296.0;
      samples[p].push_back(100 * factor * (1 + noise.between * normal(trial, side, p, 1'000'000)) *
                           (1 + noise.within * normal(trial, side, p, r)) * (late ? 1.2 : 1.0));
    }
  return samples;
}

struct Rates {
  double faster = 0, slower = 0, same = 0;  // percent of the trials; of the second side
};

Rates rates(int processes, int runs, const Noise& noise, double factor,
            const std::optional<CalibratedSpread>& spread = std::nullopt) {
  constexpr int kTrials = 1000;
  Rates rates;
  for (uint32_t trial = 0; trial < kTrials; ++trial) {
    const ProcessSamples a = side_of(trial, 0, processes, runs, noise, 1);
    const ProcessSamples b = side_of(trial, 1, processes, runs, noise, factor);
    const Verdict verdict = test_processes({.first = b, .second = a, .spread = spread}).verdict;
    rates.faster += verdict == Verdict::faster ? 100.0 / kTrials : 0;
    rates.slower += verdict == Verdict::slower ? 100.0 / kTrials : 0;
    rates.same += verdict == Verdict::same ? 100.0 / kTrials : 0;
  }
  return rates;
}

TEST(StatsProcesses, OneProcessPerSideSaysNothing) {
  const ProcessSamples a{{0, std::vector<double>(50, 100.0)}}, b{{0, std::vector<double>(50, 150.0)}};
  const PairTest test = test_processes({.first = a, .second = b});
  EXPECT_EQ(test.verdict, Verdict::unclear);
  EXPECT_EQ(test.level, TestLevel::none);
  EXPECT_DOUBLE_EQ(test.ratio, 1.5);
  EXPECT_FALSE(test.ci);
  EXPECT_EQ(test.more_runs, 4) << "processes";
}

TEST(StatsProcesses, TheProcessIsTheUnit) {
  // Medians 100, 102, 98 against 110, 112, 108: as Welch's test on their logarithms, however many runs there are.
  const ProcessSamples a{{0, {99, 100, 500}}, {1, {102}}, {2, {98, 98}}},
      b{{0, {110, 110}}, {4, {112}}, {9, {108, 108}}};
  const PairTest test = test_processes({.first = a, .second = b});
  EXPECT_EQ(test.level, TestLevel::processes);
  EXPECT_EQ(test.processes_first, 3);
  EXPECT_EQ(test.n_first, 6);
  EXPECT_NEAR(test.ratio, std::cbrt(110.0 * 112 * 108 / (100.0 * 102 * 98)), 1e-12);
  EXPECT_NEAR(test.p_welch, 0.003744032, 1e-8);  // t = 6.108181, df = 3.964187
  EXPECT_EQ(test.verdict, Verdict::faster);
  EXPECT_EQ(test_processes({.first = b, .second = a}).verdict, Verdict::slower);
}

TEST(StatsProcesses, PairsWithinProcessesCancelWhatBothShare) {
  ProcessSamples a, b;
  for (int p = 0; p < 5; ++p) {
    const double machine = 100 * (1 + 0.2 * p);  // this process runs that much slower, whatever it measures
    a[p] = {machine, machine * 1.001, machine * 0.999};
    b[p] = {machine * (1.05 + 0.001 * p), machine * 1.05, machine * 1.051};
  }
  EXPECT_EQ(test_processes({.first = a, .second = b}).verdict, Verdict::unclear);
  EXPECT_EQ(test_processes({.first = a, .second = b, .paired = true}).verdict, Verdict::faster);
}

TEST(StatsProcesses, ACalibratedSpreadStandsInForProcesses) {
  const ProcessSamples a{{0, std::vector<double>(10, 100.0)}}, b{{0, std::vector<double>(10, 110.0)}};
  const PairTest narrow = test_processes({.first = a, .second = b, .spread = CalibratedSpread{0.01, 10, 10}});
  EXPECT_EQ(narrow.level, TestLevel::calibrated);
  EXPECT_EQ(narrow.verdict, Verdict::faster);
  EXPECT_EQ(test_processes({.first = a, .second = b, .spread = CalibratedSpread{0.05, 10, 10}}).verdict,
            Verdict::unclear);
  // Fewer runs than the calibration had scatter more.
  const ProcessSamples few{{0, {99.0, 101.0, 100.0, 99.0, 101.0}}};
  EXPECT_GT(test_processes({.first = few, .second = b, .spread = CalibratedSpread{0.01, 10, 10}}).ci->half_width(),
            narrow.ci->half_width());
}

TEST(StatsProcesses, ThroughputPointsTheOtherWay) {
  const ProcessSamples a{{0, {110, 110}}, {1, {112, 112}}, {2, {108}}}, b{{0, {100, 100}}, {1, {102, 102}}, {2, {98}}};
  EXPECT_EQ(test_processes({.first = a, .second = b, .direction = Direction::larger_is_faster}).verdict,
            Verdict::faster);
}

TEST(StatsProcesses, FewerThanFiveRunsSayNothing) {
  const ProcessSamples a{{0, {100}}, {1, {102}}}, b{{0, {150}}, {1, {151}}};
  const PairTest test = test_processes({.first = a, .second = b});
  EXPECT_EQ(test.verdict, Verdict::unclear);
  EXPECT_FALSE(test.ci);
  EXPECT_EQ(test.p_welch, 1);
}

// The summary's interval of a ratio is that of the test but for the degrees of freedom.
TEST(StatsProcesses, SummariesWidenBySpreadOfProcesses) {
  ProcessSamples samples;
  for (int p = 0; p < 5; ++p)
    for (int r = 0; r < 20; ++r) samples[p].push_back(100 + 5 * p + 0.01 * r);
  const SampleSummary summary = summarise_processes(samples);
  EXPECT_EQ(summary.n, 100);
  EXPECT_EQ(summary.num_processes, 5);
  EXPECT_NEAR(summary.ci->half_width(), 2.7764 * 7.9057 / std::sqrt(5.0), 0.01);  // t(0.975, 4) sd / sqrt(5)
  const ProcessSamples one{{0, samples[0]}};
  EXPECT_EQ(summarise_processes(one).num_processes, 1);
  EXPECT_LT(summarise_processes(one).ci->half_width(), 0.1);
}

TEST(StatsProcesses, MomentsOfProcessesGiveTheSameVerdict) {
  const ProcessSamples a{{0, {100}}, {1, {102}}, {2, {98}}, {3, {101}}, {4, {99}}},
      b{{0, {110}}, {1, {112}}, {2, {108}}, {3, {109}}, {4, {111}}};
  const PairTest samples = test_processes({.first = a, .second = b});
  const PairTest moments = test_process_moments(process_moments(a), process_moments(b), Direction::smaller_is_faster);
  EXPECT_NEAR(samples.p_welch, moments.p_welch, 1e-9);
  EXPECT_NEAR(samples.ratio, moments.ratio, 1e-9);
  EXPECT_EQ(samples.verdict, moments.verdict);
}

// The trials of docs/method.md, "How the method itself is tested".
TEST(StatsProcesses, SameConfigurationIsRarelyCalledDifferent) {
  for (const Noise& noise : {Noise{0.01, 0.005, 0}, Noise{0.03, 0.01, 0}, Noise{0.002, 0.02, 0.1}}) {
    const Rates found = rates(5, 10, noise, 1.0);
    RecordProperty("aa_different_percent_between_" + std::to_string(noise.between),
                   std::to_string(found.faster + found.slower));
    EXPECT_LE(found.faster + found.slower, 5.0) << noise.between;
  }
}

TEST(StatsProcesses, RunsOfOneProcessWouldCallItDifferent) {
  // What was wrong: runs taken for independent samples of the machine.
  int different = 0;
  for (uint32_t trial = 0; trial < 200; ++trial) {
    const Noise noise{0.02, 0.005, 0};
    const ProcessSamples a = side_of(trial, 0, 1, 10, noise, 1), b = side_of(trial, 1, 1, 10, noise, 1);
    const Verdict verdict = test_pair({a.at(0), b.at(0)}).verdict;
    different += verdict == Verdict::faster || verdict == Verdict::slower;
  }
  EXPECT_GT(different, 100);
}

TEST(StatsProcesses, PlantedSlowdownOfFivePercentIsFound) {
  for (const Noise& noise : {Noise{0.01, 0.005, 0}, Noise{0.018, 0.01, 0}, Noise{0.01, 0.02, 0.1}}) {
    const Rates found = rates(5, 10, noise, 1.05);
    RecordProperty("slowdown_found_percent_between_" + std::to_string(noise.between), std::to_string(found.slower));
    EXPECT_GE(found.slower, 80.0) << noise.between;
    EXPECT_EQ(found.faster, 0) << noise.between;
  }
}

TEST(StatsProcesses, AQuietMachineIsTheSame) {
  const Rates found = rates(5, 10, {0.003, 0.005, 0.05}, 1.0);
  RecordProperty("aa_same_percent", std::to_string(found.same));
  EXPECT_GE(found.same, 90.0);
}

TEST(StatsProcesses, CalibratedSidesOfOneProcessKeepThePromise) {
  int different = 0, found = 0;
  constexpr int kTrials = 1000;
  for (uint32_t trial = 0; trial < kTrials; ++trial) {
    const Noise noise{0.01, 0.005, 0};
    const auto spread = spread_of(side_of(trial, 5, 10, 10, noise, 1));
    const ProcessSamples a = side_of(trial, 0, 1, 10, noise, 1), b = side_of(trial, 1, 1, 10, noise, 1),
                         slow = side_of(trial, 2, 1, 10, noise, 1.1);
    const Verdict same = test_processes({.first = a, .second = b, .spread = spread}).verdict;
    different += same == Verdict::faster || same == Verdict::slower;
    found += test_processes({.first = a, .second = slow, .spread = spread}).verdict == Verdict::faster;
  }
  RecordProperty("calibrated_aa_different_percent", std::to_string(100.0 * different / kTrials));
  EXPECT_LE(100.0 * different / kTrials, 5.0);
  EXPECT_GE(100.0 * found / kTrials, 95.0);
}

// A host that is faster for one study than for the next, by 0.7 of what processes differ by.
TEST(StatsProcesses, DriftBetweenStudiesIsInTheTest) {
  constexpr int kTrials = 1000;
  const Noise noise{0.03, 0.005, 0};
  int with = 0, without = 0, found = 0;
  for (uint32_t trial = 0; trial < kTrials; ++trial) {
    const double shift = std::exp(0.7 * noise.between * (normal(trial, 8, 0, 0) - normal(trial, 9, 0, 0)));
    const ProcessSamples a = side_of(trial, 0, 5, 10, noise, 1), b = side_of(trial, 1, 5, 10, noise, shift),
                         slow = side_of(trial, 1, 5, 10, noise, 1.3 * shift);
    const auto different = [](const PairTest& test) {
      return test.verdict == Verdict::faster || test.verdict == Verdict::slower;
    };
    without += different(test_processes({.first = a, .second = b}));
    with += different(test_processes({.first = a, .second = b, .drift = kHostDrift}));
    found += test_processes({.first = a, .second = slow, .drift = kHostDrift}).verdict == Verdict::faster;
  }
  RecordProperty("drift_aa_different_percent", std::to_string(100.0 * with / kTrials));
  EXPECT_GT(100.0 * without / kTrials, 10.0);
  EXPECT_LE(100.0 * with / kTrials, 5.0);
  EXPECT_GE(100.0 * found / kTrials, 95.0);  // 30 %
}

// What both sides share does not count where a process measured both in turns.
TEST(StatsProcesses, DriftIsNothingToPairs) {
  const ProcessSamples a{{0, {100, 100}}, {1, {110, 110}}, {2, {121}}}, b{{0, {105, 105}}, {1, {115, 115}}, {2, {127}}};
  const PairTest drifting = test_processes({.first = a, .second = b, .paired = true, .drift = kHostDrift});
  EXPECT_EQ(drifting.p_welch, test_processes({.first = a, .second = b, .paired = true}).p_welch);
}

TEST(StatsProcesses, IntervalsCoverTheTruth) {
  int covered = 0;
  constexpr int kTrials = 2000;
  for (uint32_t trial = 0; trial < kTrials; ++trial) {
    const Noise noise{0.02, 0.005, 0};
    const ProcessSamples a = side_of(trial, 0, 5, 10, noise, 1), b = side_of(trial, 1, 5, 10, noise, 1.3);
    const PairTest test = test_processes({.first = a, .second = b});
    covered += test.ci->low <= 1.3 && 1.3 <= test.ci->high;
  }
  RecordProperty("ratio_coverage_percent", std::to_string(100.0 * covered / kTrials));
  EXPECT_NEAR(100.0 * covered / kTrials, 95.0, 1.5);
}

}  // namespace
}  // namespace amdahl
