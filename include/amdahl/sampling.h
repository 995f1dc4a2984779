// Measuring a function of the caller's as the verbs measure theirs: warmed up until its times are stable, sampled, and
// compared by a test.
//
// Example: is a sort faster than another?
//   const amdahl::Comparison result = amdahl::compare_functions([&] { quick(data); }, [&] { merge(data); });
//   if (result.test.verdict == amdahl::Verdict::faster) puts("quick is faster");
//
// The functions run on the calling thread. Calls are independent of each other; several threads that measure at once
// measure each other.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "amdahl/error.h"
#include "amdahl/summary.h"

namespace amdahl {

struct SamplingOptions {
  int samples = 30;                // at most, each of several calls
  double least_sample_us = 1000;   // calls are repeated within a sample until it takes this long
  int64_t least_warmup_calls = 3;  // before times are judged
  double rel_ci = 0;               // stop once the 95 % interval of the mean is this narrow, as a share of it; 0: never
};

/// Times of one function.
struct Samples {
  std::vector<double> us;  // per call, one value per sample
  int64_t calls_per_sample = 1;
  int64_t warmup_calls = 0;
  bool settled = false;   // false: times still changed when the warm-up's limit of 3 s ended it
  SampleSummary summary;  // of `us`
};

/// Two functions whose samples were taken in turn, so that what drifts on the machine meets both alike.
struct Comparison {
  Samples first, second;
  PairTest test;  // ratio is how much faster the first is: second's mean time over the first's
};

/// Calls `work` until its times are stable, then takes samples. Throws Error{usage} for options out of range, and
/// whatever `work` throws.
AMDAHL_API Samples sample_function(const std::function<void()>& work, const SamplingOptions& options = {});
/// Both, alternating. Errors as sample_function.
AMDAHL_API Comparison compare_functions(const std::function<void()>& first, const std::function<void()>& second,
                                        const SamplingOptions& options = {});

}  // namespace amdahl
