// Arithmetic of estimates with intervals. Every interval of a rate, ratio, sum or mean of measured numbers comes from
// here, so that equal data give equal intervals on every page and the columns of a row divide.
#pragma once

#include <span>

#include "amdahl/summary.h"

namespace amdahl {

inline constexpr int64_t kFewestRuns = 5;  // fewer give no interval: their spread is not known well enough
// Variance of a median over that of a mean, of a normal distribution and many samples.
inline constexpr double kMedianEfficiency = 1.5707963267948966;

/// The median of independent samples with its interval.
Estimate estimate_of(std::span<const double> samples);

/// work / time, for example items over seconds.
Estimate rate_of(double work, const Estimate& time);
/// factor > 0.
Estimate scaled(const Estimate& estimate, double factor);

/// above / below of independent estimates. The interval follows from theirs: in logarithms, each end is as far from the
/// ratio as the root of the sum of the squared distances of the two ends that move it there (method of variance
/// estimates recovery, Zou and Donner 2008). Absent unless both have a positive interval.
Estimate ratio_of(const Estimate& above, const Estimate& below);

/// An estimate that counts `weight` times; a negative weight subtracts.
struct Weighted {
  Estimate estimate;
  double weight = 1;
};
/// The sum of independent estimates, with an interval by the same method.
Estimate sum_of(std::span<const Weighted> parts);

/// Of independent positive estimates; not of none.
Estimate geometric_mean(std::span<const Estimate> estimates);

}  // namespace amdahl
