// What `onesided --gemm` and `onesided --locality` measured, as tables of a page.
#pragma once

#include <string>
#include <vector>

#include "amdahl/record.h"
#include "report/page/page_parts.h"

namespace amdahl {

/// Methods of a GEMM with communication, per shape; empty without such records.
PageTable gemm_contest_table(const std::vector<Record>& records);
/// "One-sided tiles win 3 of 8 GEMMs"; empty without such records.
std::string gemm_verdict(const std::vector<Record>& records);

/// How often a copy before the kernel pays; empty without such a measurement.
std::string locality_verdict(const std::vector<Record>& records);
/// Placements of a kernel's data, in place and copied first.
PageTable locality_table(const std::vector<Record>& records);

/// Work over the median time, in the unit of the series of rates; missing without one.
TableValue rate_at_median(const Record& record, const char* rates, const char* times);

/// "2 processes, CPU", and whether the ranks share a GPU.
std::string onesided_title(const Record& record);

/// Methods of an all-reduce with normalisation, per shape; empty without such records.
PageTable norm_table(const std::vector<Record>& records);
/// "One kernel beats ... in 5 of 9 shapes"; empty without such records.
std::string norm_verdict(const std::vector<Record>& records);

}  // namespace amdahl
