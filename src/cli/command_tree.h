// The commands and options of the program as plain data, from which completion scripts and manual pages are generated.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cli/offers.h"

namespace amdahl::cli {

struct OptionNode {
  std::vector<std::string> names;  // "-o", "--output-dir"; of a positional argument its name
  std::string description, default_value;
  std::string value;  // placeholder of the value: "FILE", "N"; empty for a flag
  bool positional = false, required = false;
  bool repeated = false;  // accepts more than one value
  bool optional_value = false;
  Offer offer;

  bool is_flag() const { return value.empty(); }
};

struct CommandNode {
  std::vector<std::string> words;  // "amdahl", "sensor", "bench"
  std::string description, footer, details;
  std::vector<OptionNode> options;  // including positional arguments
  std::vector<CommandNode> commands;

  /// "amdahl sensor bench", or with another separator.
  std::string name(const std::string& separator = " ") const;
};

/// The description of an option that --help, completion and manual pages share.
OptionNode option_node(CLI::Option& option);
CommandNode command_tree(CLI::App& app);

/// A command and all its subcommands, parents first.
std::vector<const CommandNode*> all_commands(const CommandNode& root);

/// Completion scripts for the program's commands, options and values.
std::string bash_completion(const CommandNode& root);
std::string zsh_completion(const CommandNode& root);
std::string fish_completion(const CommandNode& root);

/// The manual page of one command in roff; `version` goes into its footer.
std::string manual_page(const CommandNode& command, const CommandNode& root, const std::string& version);

}  // namespace amdahl::cli
