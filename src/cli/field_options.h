// Translates field names in the library's texts to command-line options: `batch_sizes` becomes --batch-sizes.
#pragma once

#include <string>
#include <vector>

#include "amdahl/error.h"
#include "cli/command_tree.h"

namespace amdahl::cli {

/// A field whose option differs from its name with hyphens.
struct FieldOption {
  std::string_view command;  // command of the option, "sensor bench"; empty: every other command with such an option
  std::string_view field;
  std::string_view option;        // "--test", or with the part of its value: "--data-options window"
  std::string_view in_command{};  // used when the text names the command; empty: `option`
};
const std::vector<FieldOption>& field_options();

/// "--plan ddp", "amdahl study --resume". A field without a verb is looked up in `command` ("study") first. Empty
/// when no command, or not the named one, has the option.
std::string option_words(const std::vector<FieldWord>& words, const CommandNode& root, const std::string& command);

/// Makes errors and texts of the library name the options of these commands.
void name_fields(CommandNode root);
/// Makes options of the running command ("sensor bench") take precedence. Call it before threads start.
void name_fields_of(const std::string& command);

}  // namespace amdahl::cli
