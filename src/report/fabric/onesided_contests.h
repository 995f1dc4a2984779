// What `onesided --gemm` and `onesided --locality` measured, as text and as tables of a page.
#pragma once

#include <string>
#include <vector>

#include "amdahl/record.h"
#include "report/page/page_parts.h"

namespace amdahl {

/// Methods of a GEMM with communication, per shape; empty without such records.
std::string gemm_contest_text(const std::vector<Record>& records);
PageTable gemm_contest_table(const std::vector<Record>& records);
/// "One-sided tiles win 3 of 8 GEMMs"; empty without such records.
std::string gemm_verdict(const std::vector<Record>& records);

/// Placements of a kernel's data, in place and copied first.
std::string locality_text(const std::vector<Record>& records);
PageTable locality_table(const std::vector<Record>& records);

/// "2 processes, CPU", and whether the ranks share a GPU.
std::string onesided_ranks_text(const std::string& device_kind, const std::string& ranks, int64_t devices,
                                bool emulated);
std::string onesided_title(const Record& record);

}  // namespace amdahl
