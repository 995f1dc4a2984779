// Text tables for the terminal.
#pragma once

#include <string>
#include <vector>

namespace amdahl {

/// Pads columns to equal width (in code points), separated by two spaces; the first column is left-aligned, the others
/// right-aligned.
std::string aligned_table(const std::vector<std::vector<std::string>>& rows);

}  // namespace amdahl
