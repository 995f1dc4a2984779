// The JSON of other tools. Private to this folder.
#pragma once

#include "spec/json_fields.h"
#include "spec/measurements.h"

namespace amdahl {

/// nccl-tests' -J, versions 1 to 3 of its format.
Measurements read_nccl_tests(const Fields& document, const std::string& origin);
/// nvbandwidth's -j. What was waived or failed, and tests that are not known here, are noted.
Measurements read_nvbandwidth(const Fields& document, const std::string& origin);

}  // namespace amdahl
