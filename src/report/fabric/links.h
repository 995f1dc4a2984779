// Link measurements as text: one matrix per test.
#pragma once

#include <string>
#include <vector>

#include "amdahl/machine.h"
#include "amdahl/record.h"

namespace amdahl {

/// Medians in GB/s or us, one row per source and one column per destination; then integrity, expected rates of the
/// links, and the lines of `slow`.
std::string links_text(const std::vector<Record>& records, const MachineSpec& machine,
                       const std::vector<std::string>& slow);

}  // namespace amdahl
