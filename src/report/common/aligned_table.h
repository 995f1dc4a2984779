// Tables of the terminal.
#pragma once

#include <string>
#include <vector>

namespace amdahl {

/// Columns padded to equal width (code points), two spaces between them; the first column is left-aligned, others
/// right.
std::string aligned_table(const std::vector<std::vector<std::string>>& rows);

}  // namespace amdahl
