// Percentiles of samples.
#pragma once

#include <vector>

namespace amdahl {

/// The `percent`th percentile by linear interpolation between order statistics (Hyndman and Fan 1996, type 7).
/// `samples` must not be empty.
double percentile(std::vector<double> samples, double percent);

}  // namespace amdahl
