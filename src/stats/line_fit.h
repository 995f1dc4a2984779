// time = alpha + bytes / beta over a sweep of sizes.
#pragma once

#include <vector>

namespace amdahl {

struct AlphaBeta {
  double alpha_us = 0;     // of a transfer of no bytes
  double beta_gbps = 0;    // of an endless one
  double half_bytes = 0;   // at which half of beta is reached: alpha x beta
  double worst_ratio = 1;  // the largest max(measured/fitted, fitted/measured) over the points
};

/// Least squares of the relative error, so that small sizes weigh as much as large ones. At least two different sizes;
/// an alpha below 0 is set to 0 and beta fitted alone.
AlphaBeta fit_alpha_beta(const std::vector<double>& bytes, const std::vector<double>& times_us);

}  // namespace amdahl
