// Spearman's rank correlation.
#pragma once

#include <span>
#include <vector>

namespace amdahl {

/// Ranks from 1; equal values share the mean of their ranks.
std::vector<double> ranks_of(std::span<const double> values);
/// Pearson's correlation of the ranks, in [-1, 1]; 0 when a side is constant. Both sides have the same length.
double spearman(std::span<const double> a, std::span<const double> b);

}  // namespace amdahl
