// Statistics of one sample set. Every function is total: an empty set gives zeros, one sample gives no interval, and no
// finite input gives NaN.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "amdahl/summary.h"

namespace amdahl {

inline constexpr double kConfidence = 0.95;
inline constexpr double kOutlierModifiedZ = 3.5;

double mean_of(std::span<const double> samples);
/// Sample standard deviation (n - 1); 0 when n < 2.
double sd_of(std::span<const double> samples);
double median_of(std::span<const double> samples);
/// Median of |x - median|, not scaled.
double mad_of(std::span<const double> samples);

/// 0.6745 (x - median) / MAD of every sample (Iglewicz and Hoaglin 1993); all 0 when the MAD is 0.
std::vector<double> modified_z(std::span<const double> samples);
/// The samples with |modified z| <= 3.5, in order.
std::vector<double> without_outliers(std::span<const double> samples);

/// mean +- t(1 - (1 - confidence) / 2, n - 1) sd / sqrt(n); nullopt when n < 2.
std::optional<Interval> t_interval(std::span<const double> samples, double confidence = kConfidence);

/// All of the above plus the bootstrap interval of the median.
SampleSummary summarise(std::span<const double> samples);

}  // namespace amdahl
