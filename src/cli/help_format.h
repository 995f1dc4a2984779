// The format of options in --help: as users type them, with the descriptions of the manual pages.
#pragma once

#include <CLI/CLI.hpp>

namespace amdahl::cli {

/// Applies to the program and, because subcommands inherit it, to every command added afterwards.
void use_help_format(CLI::App& app);

}  // namespace amdahl::cli
