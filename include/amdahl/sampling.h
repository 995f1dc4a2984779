// Measures a function of the caller with the method of the verbs: warm-up until its times are stable, samples, a
// statistical test.
//
// Example: compare two sort functions.
//   const amdahl::Comparison result = amdahl::compare_functions([&] { quick(data); }, [&] { merge(data); });
//   if (result.test.verdict == amdahl::Verdict::faster) puts("quick is faster");
//
// The functions run on the calling thread and are thread-safe, but concurrent measurements disturb each other's times.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "amdahl/error.h"
#include "amdahl/summary.h"

namespace amdahl {

struct SamplingOptions {
  int samples = 30;                // maximum number of samples, each of several calls
  double least_sample_us = 1000;   // minimum duration of a sample, us; calls are repeated until it is reached
  int64_t least_warmup_calls = 3;  // minimum number of warm-up calls
  double rel_ci = 0;  // stops once the 95 % interval of the mean is this narrow, relative to the mean; 0: never
};

/// Times of one function.
struct Samples {
  std::vector<double> us;  // time per call, one value per sample
  int64_t calls_per_sample = 1;
  int64_t warmup_calls = 0;
  bool settled = false;   // false: times still changed after the maximum warm-up of 3 s
  SampleSummary summary;  // of `us`
};

/// Two functions whose samples alternate, so that drift of the machine affects both equally.
struct Comparison {
  Samples first, second;
  PairTest test;  // ratio: mean time of the second over mean time of the first
};

/// Calls `work` until its times are stable, then takes samples. Throws Error{usage} for an empty function and options
/// out of range, and whatever `work` throws.
AMDAHL_API Samples sample_function(const std::function<void()>& work, const SamplingOptions& options = {});
/// Samples both functions alternately and compares them. Errors as sample_function.
AMDAHL_API Comparison compare_functions(const std::function<void()>& first, const std::function<void()>& second,
                                        const SamplingOptions& options = {});

}  // namespace amdahl
