// The three trials of docs/method.md that the statistics must pass before their verdicts mean anything. Simulated with
// fixed seeds, so that the outcome is the same on every machine; the rates are recorded as test properties.
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <vector>

#include "base/philox.h"
#include "stats/compare.h"
#include "stats/summary.h"

namespace amdahl {
namespace {

// Normal samples by Box-Muller; `trial` and `side` select an independent stream.
std::vector<double> normal_samples(int n, double mean, double sd, uint32_t trial, uint32_t side) {
  std::vector<double> samples;
  for (uint32_t i = 0; samples.size() < static_cast<size_t>(n); ++i) {
    const Philox4 bits = philox(2024, i, trial, side, 0x73696d75u);
    for (int k = 0; k < 4; k += 2) {
      const double radius = std::sqrt(-2 * std::log((bits.v[k] + 1.0) / 4294967296.0));
      const double angle = 2 * std::numbers::pi * (bits.v[k + 1] / 4294967296.0);
      samples.push_back(mean + sd * radius * std::cos(angle));
      samples.push_back(mean + sd * radius * std::sin(angle));
    }
  }
  samples.resize(static_cast<size_t>(n));
  return samples;
}

struct Verdicts {
  int faster = 0, slower = 0, same = 0, unclear = 0;
};

Verdicts run_trials(int trials, int runs, double slowdown, double noise) {
  Verdicts counts;
  BootstrapOptions options;
  options.resamples = 1000;
  for (int trial = 0; trial < trials; ++trial) {
    const auto a = normal_samples(runs, 100.0, 100.0 * noise, static_cast<uint32_t>(trial), 0);
    const auto b = normal_samples(runs, 100.0 * slowdown, 100.0 * slowdown * noise, static_cast<uint32_t>(trial), 1);
    switch (test_pair({b, a}, options).verdict) {
      case Verdict::faster:
        ++counts.faster;
        break;
      case Verdict::slower:
        ++counts.slower;
        break;
      case Verdict::same:
        ++counts.same;
        break;
      case Verdict::unclear:
        ++counts.unclear;
        break;
    }
  }
  return counts;
}

TEST(StatsValidation, IntervalsCoverTheTruth) {
  for (const int runs : {5, 10, 50}) {
    int covered = 0;
    constexpr int kTrials = 2000;
    for (int trial = 0; trial < kTrials; ++trial) {
      const auto samples = normal_samples(runs, 250.0, 4.0, static_cast<uint32_t>(trial), 7);
      const auto interval = t_interval(samples);
      covered += interval->low <= 250.0 && 250.0 <= interval->high;
    }
    const double percent = 100.0 * covered / kTrials;
    RecordProperty("coverage_percent_n" + std::to_string(runs), std::to_string(percent));
    EXPECT_NEAR(percent, 95.0, 1.5) << runs << " runs";
  }
}

TEST(StatsValidation, SameConfigurationIsRarelyCalledDifferent) {
  for (const int runs : {5, 50}) {
    for (const double noise : {0.01, 0.02, 0.05}) {
      constexpr int kTrials = 1000;
      const Verdicts counts = run_trials(kTrials, runs, 1.0, noise);
      const double percent = 100.0 * (counts.faster + counts.slower) / kTrials;
      RecordProperty("aa_different_percent_n" + std::to_string(runs) + "_noise" + std::to_string(noise),
                     std::to_string(percent));
      EXPECT_LE(percent, 5.0) << runs << " runs, noise " << noise;
    }
  }
}

TEST(StatsValidation, PlantedSlowdownOfThreePercentIsFound) {
  for (const double noise : {0.01, 0.015, 0.02}) {
    constexpr int kTrials = 500;
    const Verdicts counts = run_trials(kTrials, 50, 1.03, noise);
    const double percent = 100.0 * counts.slower / kTrials;
    RecordProperty("slowdown_found_percent_noise" + std::to_string(noise), std::to_string(percent));
    EXPECT_GE(percent, 95.0) << "noise " << noise;
    EXPECT_EQ(counts.faster, 0);
  }
}

TEST(StatsValidation, AGridOfEqualCellsStaysWithinFivePercentAsAWhole) {
  constexpr int kTrials = 200, kCells = 8, kRuns = 20;
  BootstrapOptions options;
  options.resamples = 500;
  int trials_with_a_difference = 0;
  for (uint32_t trial = 0; trial < kTrials; ++trial) {
    std::vector<std::vector<double>> a, b;
    std::vector<PairSamples> grid;
    for (uint32_t cell = 0; cell < kCells; ++cell) {
      a.push_back(normal_samples(kRuns, 100, 2, 10'000 + trial, 2 * cell));
      b.push_back(normal_samples(kRuns, 100, 2, 10'000 + trial, 2 * cell + 1));
    }
    for (size_t cell = 0; cell < kCells; ++cell) grid.push_back({a[cell], b[cell]});
    bool different = false;
    for (const PairTest& test : test_grid(grid, options))
      different = different || test.verdict == Verdict::faster || test.verdict == Verdict::slower;
    trials_with_a_difference += different;
  }
  RecordProperty("aa_grid_different_percent", std::to_string(100.0 * trials_with_a_difference / kTrials));
  EXPECT_LE(100.0 * trials_with_a_difference / kTrials, 5.0);
}

TEST(StatsValidation, RatioIntervalsCoverTheTruth) {
  for (const int runs : {5, 10, 20, 50}) {
    int covered = 0;
    constexpr int kTrials = 2000;
    BootstrapOptions options;
    options.resamples = 1000;
    for (uint32_t trial = 0; trial < kTrials; ++trial) {
      const auto a = normal_samples(runs, 180, 3.6, trial, 21), b = normal_samples(runs, 100, 2.0, trial, 22);
      const auto interval = test_pair({b, a}, options).ci;
      covered += interval->low <= 1.8 && 1.8 <= interval->high;
    }
    RecordProperty("ratio_coverage_percent_n" + std::to_string(runs), std::to_string(100.0 * covered / kTrials));
    EXPECT_GE(100.0 * covered / kTrials, 93.5) << runs << " runs";  // wider for few runs, never much too narrow
  }
}

}  // namespace
}  // namespace amdahl
