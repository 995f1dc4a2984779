// Two runs of collectives, of links or of sensors against each other, also another tool's; and the published study's.
#pragma once

#include <string>
#include <vector>

#include "amdahl/comparison.h"
#include "report/compare/compare.h"

namespace amdahl {

/// Cell by cell, as compare_runs: collectives by "time", links by "bandwidth" and by "latency"; `options.series` is not
/// used. A record is one sample, the median of what it holds, for calls of one run say nothing about the next run: two
/// single runs give ratios and no verdict. Sensors by "time" with every sample, matched on all axes: a sample is a
/// measured block of calls (another tool's: its mean). Studies of another tool by "throughput". Axes that one side does
/// not know tell nothing apart. Throws what compare_runs throws, and Error{usage} when the two have no cell in common.
RunComparison compare_fabric(const std::vector<Record>& a, const std::vector<Record>& b, const CompareOptions& options);

}  // namespace amdahl
