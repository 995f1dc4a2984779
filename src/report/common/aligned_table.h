// Text tables and wrapped lines for the terminal.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace amdahl {

/// Columns that a text takes on a terminal: 2 for wide East Asian characters and emoji, 0 for combining marks.
size_t display_width(std::string_view text);

/// Pads columns to equal width, separated by two spaces. `right`, one per column, says which are right-aligned; without
/// it the first is left-aligned and the others right-aligned. A table of more than `width` columns of a terminal (0:
/// any) becomes several, one below the other, each with the first column.
std::string aligned_table(const std::vector<std::vector<std::string>>& rows, const std::vector<bool>& right = {},
                          size_t width = 0);

/// Breaks a text at spaces into lines of at most `width` columns; 0 for one line. Lines after the first begin with
/// `indent` spaces. A word longer than the line has a line of its own.
std::vector<std::string> wrapped_lines(std::string_view text, size_t width, size_t indent = 0);

}  // namespace amdahl
