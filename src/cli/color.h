// Colour of verdicts, findings and errors on a terminal. The library's texts have none: words are found here.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

#include "amdahl/error.h"

namespace amdahl::cli {

/// `when`: "auto", "always" or "never". Auto: only to a terminal that is not dumb, and not with NO_COLOR set.
void choose_color(const std::string& when);

/// Whether what goes to `to` is coloured.
bool has_color(std::FILE* to);

/// A line with the verdicts, findings and causes in it coloured.
std::string colored(std::string_view line);

/// An error's line on stderr.
void show_error(const Error& error);

}  // namespace amdahl::cli
