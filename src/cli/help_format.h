// --help and --help-all: options by group, as users type them, with the descriptions of the manual pages.
#pragma once

#include <CLI/CLI.hpp>
#include <initializer_list>
#include <string>

namespace amdahl::cli {

/// Applies to the program and, because subcommands inherit it, to every command added afterwards.
void use_help_format(CLI::App& app);

/// Options of a group, separated by blanks. With a plus, "+--seed", only --help-all shows the option.
struct HelpGroup {
  const char* name;
  const char* options;
};
/// Puts all options of a command into groups, in this order.
void arrange(CLI::App* app, std::initializer_list<HelpGroup> groups);
/// Text that only --help-all shows, after the options.
void add_details(CLI::App* app, const std::string& text);
std::string details_of(const CLI::App* app);

}  // namespace amdahl::cli
