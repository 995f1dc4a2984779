// Patterns of programs with several ranks, each by collectives or messages and by one-sided communication.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "measure/onesided/bench.h"

namespace amdahl {

struct PatternRank;

/// A pattern: both versions compute the same, apart from staleness.
struct PatternRow {
  std::string_view name;  // "halo"
  std::string_view step;  // what one step is
  /// Runs `steps` steps on this rank and returns their time in us; collective. `result` gets what the ranks computed,
  /// to compare the versions; `loss` the losses over the steps where the pattern trains.
  double (*run)(PatternRank& rank, bool one_sided, int steps, std::vector<double>& result, std::vector<double>& loss);
  bool exact = true;  // both versions give the same result
};
const std::vector<PatternRow>& one_sided_patterns();

/// One Record of kind "onesided-pattern" per pattern and version, on CPU devices. Axes: pattern, transport ("one-sided"
/// or the communicator), devices, ranks. Series: time (us per step, on the slowest rank, one sample per repetition),
/// loss (of patterns that train, over the steps, on rank 0). A version whose result differs from the other's is failed.
void run_onesided_patterns(Fleet& fleet, const OneSidedSettings& settings,
                           const std::function<void(const Record&)>& sink, Observer& observer);

}  // namespace amdahl
