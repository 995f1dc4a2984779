// Statistics against definitions that are slow or independent of the code: enumeration, integration, search.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "stats/compare.h"
#include "stats/distributions.h"
#include "stats/hypothesis.h"
#include "stats/line_fit.h"
#include "stats/percentile.h"
#include "stats/serial_fraction.h"
#include "stats/stopping.h"
#include "stats/summary.h"

namespace amdahl {
namespace {

std::vector<double> normals(std::mt19937_64& random, int n, double mean, double sd) {
  std::normal_distribution<double> normal(mean, sd);
  std::vector<double> values(static_cast<size_t>(n));
  for (double& value : values) value = normal(random);
  return values;
}

std::vector<double> scaled(std::vector<double> values, double factor, double shift = 0) {
  for (double& value : values) value = value * factor + shift;
  return values;
}

// The area under Student's density from t on, by Simpson's rule over x = t / u.
double tail_by_integration(double t, double df) {
  const double constant = std::exp(std::lgamma((df + 1) / 2) - std::lgamma(df / 2)) / std::sqrt(df * M_PI);
  const auto at = [&](double u) {  // of the density times dx/du
    if (u == 0) return df > 1 ? 0.0 : constant * df / t;
    const double x = t / u;
    return constant * std::pow(1 + x * x / df, -(df + 1) / 2) * t / (u * u);
  };
  constexpr int kParts = 20'000;
  double sum = at(0) + at(1);
  for (int i = 1; i < kParts; ++i) sum += (i % 2 == 1 ? 4 : 2) * at(static_cast<double>(i) / kParts);
  return sum / (3.0 * kParts);
}

TEST(StatsOracle, StudentsTailIsTheAreaUnderItsDensity) {
  for (const double df : {1.0, 2.0, 3.7, 9.0, 48.0, 300.0})
    for (const double t : {0.5, 1.0, 1.96, 3.5, 8.0})
      EXPECT_NEAR(student_t_upper_tail(t, df), tail_by_integration(t, df), 2e-7) << t << " of " << df;
}

TEST(StatsOracle, QuantilesInvertTails) {
  for (const double p : {1e-6, 0.001, 0.025, 0.3, 0.5, 0.8, 0.975, 1 - 1e-6}) {
    EXPECT_NEAR(normal_upper_tail(normal_quantile(p)), 1 - p, 1e-9);
    EXPECT_NEAR(normal_quantile(p), -normal_quantile(1 - p), 1e-9);
    for (const double df : {1.0, 4.5, 60.0}) {
      EXPECT_NEAR(student_t_upper_tail(student_t_quantile(p, df), df), 1 - p, 1e-9);
      if (p > 0.5) {
        EXPECT_GT(student_t_quantile(p, df), normal_quantile(p)) << "heavier tails";
      }
    }
  }
}

// P of a U at least as far from the middle, over all choices of which values are `a`'s.
double u_by_enumeration(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> all = a;
  all.insert(all.end(), b.begin(), b.end());
  const auto distance = [&](const std::vector<bool>& first) {
    double u = 0;
    for (size_t i = 0; i < all.size(); ++i)
      for (size_t j = 0; j < all.size(); ++j) u += first[i] && !first[j] && all[i] > all[j];
    return std::abs(u - static_cast<double>(a.size() * b.size()) / 2);
  };
  std::vector<bool> chosen(all.size(), false);
  std::fill(chosen.begin(), chosen.begin() + static_cast<std::ptrdiff_t>(a.size()), true);
  const double observed = distance(chosen);
  std::sort(chosen.begin(), chosen.end());
  double extreme = 0, total = 0;
  do {
    ++total;
    extreme += distance(chosen) >= observed - 1e-9;
  } while (std::next_permutation(chosen.begin(), chosen.end()));
  return extreme / total;
}

TEST(StatsOracle, ExactMannWhitneyIsTheShareOfAllArrangements) {
  std::mt19937_64 random(51);
  for (int trial = 0; trial < 60; ++trial) {
    const auto a = normals(random, 1 + static_cast<int>(random() % 5), 0, 1),
               b = normals(random, 1 + static_cast<int>(random() % 5), trial % 3, 1);
    EXPECT_NEAR(mann_whitney(a, b).p, u_by_enumeration(a, b), 1e-12);
    EXPECT_NEAR(mann_whitney(a, b).p, mann_whitney(b, a).p, 1e-12);
    EXPECT_NEAR(mann_whitney(a, b).p, mann_whitney(scaled(a, 7, 100), scaled(b, 7, 100)).p, 1e-12) << "ranks only";
  }
}

// Where there are too many arrangements to count: the normal approximation by its formula is near.
TEST(StatsOracle, ExactMannWhitneyIsNearItsNormalApproximation) {
  std::mt19937_64 random(52);
  for (int trial = 0; trial < 60; ++trial) {
    const auto a = normals(random, 8, 0, 1), b = normals(random, 40, 0.1 * (trial % 10), 1);
    double u = 0;
    for (const double x : a)
      for (const double y : b) u += x > y;
    const double n = 8, m = 40, z = (std::abs(u - n * m / 2) - 0.5) / std::sqrt(n * m * (n + m + 1) / 12);
    EXPECT_NEAR(mann_whitney(a, b).p, std::min(1.0, 2 * normal_upper_tail(z)), 0.02);
    EXPECT_EQ(mann_whitney(a, b).statistic, u);
  }
}

TEST(StatsProperties, WelchDoesNotDependOnUnitsOffsetOrSide) {
  std::mt19937_64 random(53);
  for (int trial = 0; trial < 100; ++trial) {
    const auto a = normals(random, 2 + static_cast<int>(random() % 20), 5, 1),
               b = normals(random, 2 + static_cast<int>(random() % 20), 5.5, 2);
    const TestResult test = welch_t(a, b);
    EXPECT_NEAR(welch_t(b, a).p, test.p, 1e-12);
    EXPECT_NEAR(welch_t(b, a).statistic, -test.statistic, 1e-9);
    EXPECT_NEAR(welch_t(scaled(a, 1e-6), scaled(b, 1e-6)).p, test.p, 1e-9);
    EXPECT_NEAR(welch_t(scaled(a, 1e9, 3e9), scaled(b, 1e9, 3e9)).p, test.p, 1e-6);
    EXPECT_GE(test.df, std::min<double>(static_cast<double>(a.size()), static_cast<double>(b.size())) - 1 - 1e-9);
    EXPECT_LE(test.df, static_cast<double>(a.size() + b.size()) - 2 + 1e-9);
  }
}

TEST(StatsProperties, EquivalenceNeedsRoomOnBothSides) {
  std::mt19937_64 random(54);
  for (int trial = 0; trial < 100; ++trial) {
    const auto a = normals(random, 10, 100, 0.5), b = normals(random, 12, 100.2, 0.5);
    double before = 1;
    for (const double margin : {0.001, 0.003, 0.01, 0.03, 0.1}) {
      const double p = equivalence(a, b, margin).p;
      EXPECT_LE(p, before + 1e-12) << "a wider margin is easier to stay within";
      before = p;
    }
    EXPECT_LT(before, 1e-6);
    EXPECT_GT(equivalence(a, scaled(b, 1.05), 0.01).p, 0.5) << "5 % apart";
    EXPECT_GT(equivalence(scaled(a, 1.05), b, 0.01).p, 0.5);
  }
}

TEST(StatsProperties, HolmIsTheDefinition) {
  std::mt19937_64 random(55);
  std::uniform_real_distribution<double> uniform(0, 0.4);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<double> p(1 + random() % 9);
    for (double& value : p) value = random() % 5 == 0 ? 0.01 : uniform(random);
    const std::vector<double> adjusted = holm(p);
    for (size_t i = 0; i < p.size(); ++i) {
      double expected = 0;  // max over all q <= p[i] of (number of p >= q) x q
      for (const double q : p)
        if (q <= p[i])
          expected = std::max(
              expected, q * static_cast<double>(std::count_if(p.begin(), p.end(), [&](double r) { return r >= q; })));
      EXPECT_NEAR(adjusted[i], std::min(1.0, expected), 1e-12);
    }
  }
  EXPECT_TRUE(holm({}).empty());
}

TEST(StatsProperties, SummariesHaveNoTroubleWithLargeOffsets) {
  std::mt19937_64 random(56);
  for (int trial = 0; trial < 50; ++trial) {
    const auto small = normals(random, 3 + static_cast<int>(random() % 40), 0, 1);
    const double offset = 1e9;
    EXPECT_NEAR(mean_of(scaled(small, 1, offset)) - offset, mean_of(small), 1e-6);
    EXPECT_NEAR(sd_of(scaled(small, 1, offset)), sd_of(small), 1e-6);
    EXPECT_NEAR(mad_of(scaled(small, 1, offset)), mad_of(small), 1e-6);
    EXPECT_EQ(without_outliers(small).size(), without_outliers(scaled(small, -3, 17)).size());
  }
}

TEST(StatsProperties, OutliersNeverHideAMajority) {
  std::mt19937_64 random(57);
  for (int trial = 0; trial < 200; ++trial) {
    auto samples = normals(random, 5 + static_cast<int>(random() % 30), 100, 1);
    for (size_t i = 0; i < samples.size() / 3; ++i) samples[i] *= static_cast<double>(1 + random() % 50);
    const auto kept = without_outliers(samples);
    EXPECT_GE(2 * kept.size(), samples.size());
    for (const double value : kept) EXPECT_NEAR(value, median_of(samples), 3.5 / 0.6745 * mad_of(samples) * 1.0001);
  }
}

TEST(StatsProperties, PercentilesLieBetweenOrderStatistics) {
  std::mt19937_64 random(58);
  for (int trial = 0; trial < 200; ++trial) {
    auto samples = normals(random, 1 + static_cast<int>(random() % 20), 0, 1);
    const std::vector<double> shuffled = samples;
    std::sort(samples.begin(), samples.end());
    EXPECT_EQ(percentile(shuffled, 0), samples.front());
    EXPECT_EQ(percentile(shuffled, 100), samples.back());
    EXPECT_NEAR(percentile(shuffled, 50), median_of(shuffled), 1e-12);
    const auto steps = static_cast<double>(samples.size() - 1);
    for (size_t i = 0; i < samples.size() && steps > 0; ++i)
      EXPECT_NEAR(percentile(shuffled, 100 * static_cast<double>(i) / steps), samples[i], 1e-9);
    double before = samples.front();
    for (int percent = 0; percent <= 100; percent += 5) {
      EXPECT_GE(percentile(shuffled, percent), before);
      before = percentile(shuffled, percent);
    }
  }
}

double relative_error(double alpha, double slope, const std::vector<double>& bytes, const std::vector<double>& times) {
  double sum = 0;
  for (size_t i = 0; i < bytes.size(); ++i) sum += std::pow((alpha + slope * bytes[i] - times[i]) / times[i], 2);
  return sum;
}

TEST(LineFit, RecoversWhatMadeTheTimes) {
  std::mt19937_64 random(59);
  std::uniform_real_distribution<double> alpha_us(0.5, 50), beta_gbps(0.1, 900);
  for (int trial = 0; trial < 100; ++trial) {
    const double alpha = alpha_us(random), beta = beta_gbps(random);
    std::vector<double> bytes, times;
    for (double size = 8; size < 1e9; size *= 8) bytes.push_back(size), times.push_back(alpha + size / beta * 1e-3);
    const AlphaBeta fit = fit_alpha_beta(bytes, times);
    EXPECT_NEAR(fit.alpha_us, alpha, 1e-6 * alpha);
    EXPECT_NEAR(fit.beta_gbps, beta, 1e-6 * beta);
    EXPECT_NEAR(fit.half_bytes, alpha * beta * 1e3, 1e-4 * alpha * beta * 1e3);
    EXPECT_NEAR(fit.worst_ratio, 1, 1e-6);
  }
}

TEST(LineFit, NoOtherLineIsNearerByRelativeError) {
  std::mt19937_64 random(60);
  std::uniform_real_distribution<double> noise(0.8, 1.25), nudge(0.9, 1.1);
  for (int trial = 0; trial < 50; ++trial) {
    std::vector<double> bytes, times;
    for (double size = 64; size < 1e8; size *= 4)
      bytes.push_back(size), times.push_back((5 + size / 20 * 1e-3) * noise(random));
    const AlphaBeta fit = fit_alpha_beta(bytes, times);
    ASSERT_GT(fit.beta_gbps, 0);
    const double slope = 1e-3 / fit.beta_gbps, least = relative_error(fit.alpha_us, slope, bytes, times);
    for (int other = 0; other < 50; ++other)
      EXPECT_GE(relative_error(fit.alpha_us * nudge(random), slope * nudge(random), bytes, times), least - 1e-12);
    double worst = 1;
    for (size_t i = 0; i < bytes.size(); ++i) {
      const double fitted = fit.alpha_us + slope * bytes[i];
      worst = std::max({worst, fitted / times[i], times[i] / fitted});
    }
    EXPECT_NEAR(fit.worst_ratio, worst, 1e-9);
  }
}

TEST(LineFit, OddSweepsAreDefined) {
  EXPECT_EQ(fit_alpha_beta({}, {}).beta_gbps, 0);
  const AlphaBeta falling = fit_alpha_beta({100, 200, 400}, {1, 1.5, 5});
  EXPECT_EQ(falling.alpha_us, 0) << "faster than proportional at the start: no negative latency";
  EXPECT_GT(falling.beta_gbps, 0);
  const AlphaBeta same = fit_alpha_beta({1000, 1000}, {2, 2});
  EXPECT_EQ(same.alpha_us, 0) << "one size says nothing about latency";
  EXPECT_NEAR(same.beta_gbps, 0.5, 1e-9);
  const AlphaBeta shrinking = fit_alpha_beta({1, 1000}, {10, 1});
  EXPECT_TRUE(std::isfinite(shrinking.alpha_us) && std::isfinite(shrinking.beta_gbps));
}

TEST(Trend, TurnsAroundWithTheBlocks) {
  std::mt19937_64 random(61);
  for (int trial = 0; trial < 200; ++trial) {
    auto blocks = normals(random, 5 + static_cast<int>(random() % 6), 100, 3);
    const Trend forward = trend_of(blocks);
    std::reverse(blocks.begin(), blocks.end());
    const Trend backward = trend_of(blocks);
    EXPECT_NEAR(forward.p, backward.p, 1e-12);
    EXPECT_NEAR(forward.relative_drift, -backward.relative_drift, 1e-12);
    EXPECT_NEAR(trend_of(scaled(blocks, 1e-3)).relative_drift, backward.relative_drift, 1e-9);
  }
}

TEST(Trend, OfNothingIsRareAndOfSomethingIsFound) {
  std::mt19937_64 random(62);
  int of_noise = 0, of_slope = 0;
  constexpr int kTrials = 2000;
  for (int trial = 0; trial < kTrials; ++trial) {
    auto blocks = normals(random, 8, 100, 2);
    of_noise += trend_of(blocks).trending;
    for (size_t i = 0; i < blocks.size(); ++i) blocks[i] -= 3 * static_cast<double>(i);
    of_slope += trend_of(blocks).trending;
  }
  EXPECT_LT(of_noise, 0.06 * kTrials);
  EXPECT_GT(of_slope, 0.95 * kTrials);
  EXPECT_FALSE(trend_of(std::vector<double>(9, 4.0)).trending);
  EXPECT_FALSE(trend_of(std::vector<double>{100, 100.01, 100.02, 100.03, 100.04, 100.05}).trending) << "0.05 % in all";
}

TEST(Stopping, DecidesByTheInterval) {
  std::mt19937_64 random(63);
  for (int trial = 0; trial < 300; ++trial) {
    const auto samples = normals(random, static_cast<int>(random() % 60), 100, 1 + static_cast<double>(random() % 5));
    const StopRule rule{0.01, 5, 50};
    const StopDecision decision = decide_stop(samples, rule);
    const auto interval = t_interval(samples);
    const bool tight = samples.size() >= 5 && interval && interval->half_width() <= 0.01 * mean_of(samples);
    EXPECT_EQ(decision.tight, tight);
    EXPECT_EQ(decision.stop, tight || samples.size() >= 50);
  }
  EXPECT_FALSE(decide_stop(std::vector<double>(20, 0.0), {0.01}).relative_half_width) << "relative to nothing";
}

TEST(SerialFractionProperties, ComesBackFromAmdahlsLaw) {
  for (const double f : {0.0, 0.01, 0.2, 0.5, 1.0, 1.3}) {
    std::vector<StepSamples> points;
    for (const double n : {2.0, 3.0, 8.0, 64.0}) {
      const double speedup = 1 / (f + (1 - f) / n);
      EXPECT_NEAR(karp_flatt(speedup, n), f, 1e-12);
      points.push_back({static_cast<int64_t>(n), {1000 / speedup, {}}, {speedup, {}}});
      EXPECT_NEAR(serial_fraction({1000, {}}, points).fitted, f, 1e-12);
    }
  }
}

TEST(Mirrored, TwiceIsTheSameTest) {
  std::mt19937_64 random(64);
  for (int trial = 0; trial < 20; ++trial) {
    const auto a = normals(random, 8, 100, 1), b = normals(random, 9, 100 + trial, 1);
    const PairTest test = test_pair({a, b}), turned = mirrored(test), back = mirrored(turned);
    EXPECT_NEAR(turned.ratio * test.ratio, 1, 1e-12);
    EXPECT_EQ(turned.n_first, test.n_second);
    ASSERT_TRUE(test.ci && turned.ci && back.ci);
    EXPECT_LE(turned.ci->low, turned.ratio);
    EXPECT_GE(turned.ci->high, turned.ratio);
    EXPECT_NEAR(back.ci->low, test.ci->low, 1e-12);
    EXPECT_NEAR(back.ci->high, test.ci->high, 1e-12);
    EXPECT_EQ(back.verdict, test.verdict);
    EXPECT_EQ(test.verdict == Verdict::faster, turned.verdict == Verdict::slower);
  }
}

}  // namespace
}  // namespace amdahl
