// Tables of a sweep over collectives, from its records alone.
#pragma once

#include <string>
#include <vector>

#include "amdahl/record.h"

namespace amdahl {

/// One line a size and placement: time of the loop, percentiles of the second loop's calls, bandwidths, wrong elements;
/// and which column is from which loop.
std::string collectives_text(const std::vector<Record>& records);
/// The columns of nccl-tests, out of place and in place side by side, so that parsers of its output read this one too.
std::string collectives_nccl_tests(const std::vector<Record>& records);

}  // namespace amdahl
