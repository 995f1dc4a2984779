// The sweeps of a run over collectives, and their table in the format of nccl-tests.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "amdahl/record.h"

namespace amdahl {

/// Records of kind "collective" by what all rows of a table share: sweep, transport and launch, in order of appearance.
std::vector<std::pair<std::string, std::vector<const Record*>>> collective_tables(const std::vector<Record>& records);
/// The output format of nccl-tests, out of place and in place side by side, for existing parsers of it.
std::string collectives_nccl_tests(const std::vector<Record>& records);

/// "all_reduce, f32, sum over 2 GPUs": what a sweep measures, without transport, launch or placement.
std::string sweep_text(const Record& record);

}  // namespace amdahl
