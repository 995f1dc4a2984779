// Student t and normal distribution. Wraps Boost.Math.
#pragma once

namespace amdahl {

/// t such that P(T <= t) = p, for df > 0 and p in (0, 1).
double student_t_quantile(double p, double df);
/// P(T > t).
double student_t_upper_tail(double t, double df);
/// z such that P(Z <= z) = p, for p in (0, 1).
double normal_quantile(double p);
/// P(Z > z).
double normal_upper_tail(double z);

}  // namespace amdahl
