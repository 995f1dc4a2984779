// time = alpha + bytes / beta over a sweep of sizes.
#pragma once

#include <span>
#include <vector>

namespace amdahl {

struct AlphaBeta {
  double alpha_us = 0;     // time of a transfer of 0 bytes
  double beta_gbps = 0;    // asymptotic bandwidth
  double half_bytes = 0;   // size at which half of beta is reached: alpha x beta
  double worst_ratio = 1;  // the largest max(measured/fitted, fitted/measured) over the points
};

/// Least squares of the relative error, so that small sizes weigh as much as large ones. Needs at least two different
/// sizes. A negative alpha is set to 0 and beta is fitted alone.
AlphaBeta fit_alpha_beta(const std::vector<double>& bytes, const std::vector<double>& times_us);

/// Ranks from 1; equal values share the mean of their ranks.
std::vector<double> ranks_of(std::span<const double> values);
/// Pearson's correlation of the ranks, in [-1, 1]; 0 when a side is constant. Both sides have the same length.
double spearman(std::span<const double> a, std::span<const double> b);

}  // namespace amdahl
