// Samples of a function's run time: warm-up until it is stable, several calls per sample, and a stopping rule.
#pragma once

#include <chrono>
#include <functional>

#include "amdahl/summary.h"

namespace amdahl {

/// Takes the samples of one function one at a time, so that samples of several functions can alternate. Not
/// thread-safe.
class FunctionSampler {
 public:
  /// Error{usage} for options out of range.
  FunctionSampler(std::function<void()> work, const SamplingOptions& options);

  /// Calls the function until WarmUpRule is satisfied, and chooses the number of calls per sample.
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
