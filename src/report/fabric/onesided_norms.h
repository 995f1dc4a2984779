// What `onesided --norm` measured, as a table of a page.
#pragma once

#include <string>
#include <vector>

#include "amdahl/record.h"
#include "report/page/page_parts.h"

namespace amdahl {

/// Methods of an all-reduce with normalisation, per shape; empty without such records.
PageTable norm_table(const std::vector<Record>& records);
/// "One kernel beats ... in 5 of 9 shapes"; empty without such records.
std::string norm_verdict(const std::vector<Record>& records);

}  // namespace amdahl
