// Tests of two sample sets, and the correction for multiple tests. A set too small to test gives p = 1.
#pragma once

#include <span>
#include <vector>

#include "stats/moments.h"

namespace amdahl {

struct TestResult {
  double statistic = 0;
  double df = 0;  // degrees of freedom; 0 where the test has none
  double p = 1;
};

/// Two-tailed t test without equal variances (Welch 1947). Both sides constant: p = 1 when equal, else 0.
TestResult welch_t(std::span<const double> a, std::span<const double> b);
TestResult welch_t(const Moments& a, const Moments& b);

/// Two-tailed Mann-Whitney U of `a`. Exact when there are no ties and the smaller side has at most 8 samples (and the
/// larger at most 100); else the normal approximation with tie and continuity correction, as scipy does.
TestResult mann_whitney(std::span<const double> a, std::span<const double> b);

/// Two one-sided tests (Schuirmann 1987) that mean(a) / mean(b) lies within 1 +- margin; p is the larger of the two.
/// Both means must be positive, else p = 1.
TestResult equivalence(std::span<const double> a, std::span<const double> b, double margin);
TestResult equivalence(const Moments& a, const Moments& b, double margin);

/// Holm's step-down adjusted p values (1979), in input order.
std::vector<double> holm(std::span<const double> p_values);

}  // namespace amdahl
