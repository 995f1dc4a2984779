// Compares two runs of collectives, links or sensors, also with those of other tools; and with the published study.
#pragma once

#include <string>
#include <vector>

#include "amdahl/comparison.h"
#include "report/compare/compare.h"

namespace amdahl {

/// Compares cells like compare_runs: collectives by "time", links by "bandwidth" and by "latency"; `options.series` is
/// not used. For these a record counts as one sample, its median, because the calls of one run do not predict the next
/// run: two single runs give ratios without a verdict. Sensors are compared by "time" with every sample, matched on all
/// axes: a sample is a measured block of calls (for another tool, its mean). Studies of another tool are compared by
/// "throughput". Axes that one side lacks are ignored. Throws what compare_runs throws, and Error{usage} when the two
/// have no cell in common.
RunComparison compare_fabric(const std::vector<Record>& a, const std::vector<Record>& b, const CompareOptions& options);

}  // namespace amdahl
