// Percentile bootstrap, seeded: the same samples and seed give the same interval on every machine.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "amdahl/summary.h"

namespace amdahl {

struct BootstrapOptions {
  double confidence = 0.95;
  int resamples = 4000;
  uint64_t seed = 42;
};

/// Interval of the median; nullopt for fewer than kFewestRuns samples.
std::optional<Interval> bootstrap_median(std::span<const double> samples, const BootstrapOptions& options = {});

}  // namespace amdahl
