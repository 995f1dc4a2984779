// Options from a file (--config) and from the environment (AMDAHL_OPTION), for those that the command line lacks.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cli/command_tree.h"

namespace amdahl::cli {

struct Settings {
  std::vector<std::string> words;  // the command line with the options that were added, without --config
  std::string sources;             // which came from where, for errors: "run.toml:3 sets --model"; empty: none
};

/// Of several sources the command line counts, then the environment, then the command's table of the file, then the
/// keys above all tables. Error{usage} for a file that cannot be read, and for a command or option in it that amdahl
/// does not have.
Settings with_settings(const std::vector<std::string>& words, const CommandNode& root,
                       const std::map<std::string, std::string>& environment);

}  // namespace amdahl::cli
