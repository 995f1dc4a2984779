// Percentile bootstrap, seeded: the same samples and seed give the same interval on every machine.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "amdahl/summary.h"

namespace amdahl {

struct BootstrapOptions {
  double confidence = 0.95;
  int resamples = 4000;
  uint64_t seed = 42;
};

/// Two independent sample sets; the ratio is numerator over denominator.
struct SamplePair {
  std::span<const double> numerator;
  std::span<const double> denominator;
};

/// Samples whose mean counts `weight` times in a sum, e.g. 2 for two equal devices of which one was measured.
struct WeightedSamples {
  std::span<const double> samples;
  double weight = 1;
};

/// Interval of the mean and of the median; nullopt when n < 2.
std::optional<Interval> bootstrap_mean(std::span<const double> samples, const BootstrapOptions& options = {});
std::optional<Interval> bootstrap_median(std::span<const double> samples, const BootstrapOptions& options = {});
/// Interval of mean(numerator) / mean(denominator). nullopt when either side has n < 2 or a resampled denominator is
/// not positive, because the ratio then has no meaningful interval.
std::optional<Interval> bootstrap_ratio_of_means(SamplePair pair, const BootstrapOptions& options = {});
std::optional<Interval> bootstrap_ratio_of_medians(SamplePair pair, const BootstrapOptions& options = {});
/// Interval of mean(numerator) / sum of weight x mean of each part; nullopt in the same cases and when `parts` is
/// empty.
std::optional<Interval> bootstrap_ratio_to_sum(std::span<const double> numerator,
                                               std::span<const WeightedSamples> parts,
                                               const BootstrapOptions& options = {});
/// Interval of the geometric mean of the pairs' ratios of means; pairs are resampled independently.
std::optional<Interval> bootstrap_geometric_mean(std::span<const SamplePair> pairs,
                                                 const BootstrapOptions& options = {});
/// Interval of a function of the means of independent sample sets, which are resampled together. nullopt when a set has
/// n < 2 or a function value is not finite.
std::optional<Interval> bootstrap_of_means(std::span<const std::span<const double>> sets,
                                           const std::function<double(std::span<const double> means)>& function,
                                           const BootstrapOptions& options = {});

}  // namespace amdahl
