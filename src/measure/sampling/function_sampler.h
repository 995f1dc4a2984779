// Samples of a function's time: warmed up until it is stable, several calls in each sample, stopped by a rule.
#pragma once

#include <chrono>
#include <functional>

#include "amdahl/sampling.h"

namespace amdahl {

/// Takes the samples of one function one by one, so that those of several can alternate.
class FunctionSampler {
 public:
  /// Error{usage} for options out of range.
  FunctionSampler(std::function<void()> work, const SamplingOptions& options);

  /// Calls until WarmUpRule is satisfied, and settles how many calls a sample has.
  void warm_up();
  void take_sample();
  /// Whether no further sample is needed: `samples` were taken, or the interval is as narrow as `rel_ci` asks.
  bool done() const;
  Samples result() const;

 private:
  double time_us(int64_t calls);

  std::function<void()> work_;
  SamplingOptions options_;
  Samples samples_;
};

}  // namespace amdahl
