// Colours verdicts, findings and errors on a terminal. The library's texts have no colour codes: keywords are matched
// here.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

#include "amdahl/error.h"

namespace amdahl::cli {

/// `when`: "auto", "always" or "never". auto: only on a terminal that is not "dumb", and unless NO_COLOR is set.
void choose_color(const std::string& when);

/// Whether output to `to` is coloured.
bool has_color(std::FILE* to);

/// Returns the line with its verdicts, findings and causes coloured.
std::string colored(std::string_view line);

/// Prints the line of an error to stderr.
void show_error(const Error& error);

}  // namespace amdahl::cli
