// What the command line calls the fields that texts of the library name: `batch_sizes` is --batch-sizes.
#pragma once

#include <string>
#include <vector>

#include "amdahl/fields.h"
#include "cli/command_tree.h"

namespace amdahl::cli {

/// A field whose option is not its own name with hyphens.
struct FieldOption {
  std::string_view command;  // whose option it is, "sensor bench"; empty: every other command that has such an option
  std::string_view field;
  std::string_view option;
  std::string_view in_command{};  // where the text names the command; empty: `option` there, too
};
const std::vector<FieldOption>& field_options();

/// "--strategy ddp", "amdahl study --resume". A field without a verb is one of `command`, "study", where that has it.
/// Empty when no command, or not the one that is named, has the option.
std::string option_words(const std::vector<FieldWord>& words, const CommandNode& root, const std::string& command);

/// Errors and texts of the library name options of these commands from here on.
void name_fields(CommandNode root);
/// And before others those of the command that runs, "sensor bench". Before it starts threads.
void name_fields_of(const std::string& command);

}  // namespace amdahl::cli
