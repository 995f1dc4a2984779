// Tables of a sweep over collectives, from its records only.
#pragma once

#include <string>
#include <vector>

#include "amdahl/record.h"

namespace amdahl {

/// One line per size and placement: time of the loop, percentiles of the single calls of the second loop, bandwidths,
/// wrong elements; and which column is from which loop.
std::string collectives_text(const std::vector<Record>& records);
/// The output format of nccl-tests, out of place and in place side by side, for existing parsers of it.
std::string collectives_nccl_tests(const std::vector<Record>& records);

/// "all_reduce, f32, sum over 2 GPUs": what a sweep measures, without transport, launch or placement.
std::string sweep_text(const Record& record);

}  // namespace amdahl
