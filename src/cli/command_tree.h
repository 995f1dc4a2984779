// The commands and options of the program as plain data, for what is made from them: completion scripts and manual
// pages.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cli/offers.h"

namespace amdahl::cli {

struct OptionNode {
  std::vector<std::string> names;  // "-o", "--output-dir"; of a positional its name
  std::string description, default_value;
  std::string value;  // what help calls the value: "FILE", "N"; empty for a flag
  bool positional = false, required = false;
  bool repeated = false;  // takes more than one value
  bool optional_value = false;
  Offer offer;

  bool is_flag() const { return value.empty(); }
};

struct CommandNode {
  std::vector<std::string> words;  // "amdahl", "sensor", "bench"
  std::string description, footer;
  std::vector<OptionNode> options;  // positionals among them
  std::vector<CommandNode> commands;

  /// "amdahl sensor bench", or with another separator.
  std::string name(const std::string& separator = " ") const;
};

/// What --help, completion and manual pages say of an option.
OptionNode option_node(CLI::Option& option);
CommandNode command_tree(CLI::App& app);

/// A command and all below it, parents first.
std::vector<const CommandNode*> all_commands(const CommandNode& root);

/// Scripts that complete the program's commands, options and values.
std::string bash_completion(const CommandNode& root);
std::string zsh_completion(const CommandNode& root);
std::string fish_completion(const CommandNode& root);

/// The manual page of one command in roff. `version` stands in its footer.
std::string manual_page(const CommandNode& command, const CommandNode& root, const std::string& version);

}  // namespace amdahl::cli
