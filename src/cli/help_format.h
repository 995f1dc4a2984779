// How --help prints options: as users write them, with the words of the manual pages.
#pragma once

#include <CLI/CLI.hpp>

namespace amdahl::cli {

/// For the program and, since commands inherit it, every command that is added afterwards.
void use_help_format(CLI::App& app);

}  // namespace amdahl::cli
