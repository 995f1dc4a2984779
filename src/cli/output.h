// Text for the user's terminal.
#pragma once

#include <cstdio>
#include <string_view>

namespace amdahl::cli {

/// Prints lines that may quote records, files and names: without bytes that a terminal would act on. JSON is printed as
/// it is, since it has its own escapes.
void show(std::FILE* to, std::string_view lines);

}  // namespace amdahl::cli
