// Completion script for fish: one line per command, option and list of values.
#include <fmt/format.h>

#include "cli/command_tree.h"

namespace amdahl::cli {
namespace {

constexpr const char* kFishHead = R"(# fish completion for amdahl
function __amdahl_command --description 'Whether the command line is at this command'
    set -l command amdahl
    for word in (commandline -opc)[2..-1]
        contains -- "$command $word" $__amdahl_commands; and set command "$command $word"
    end
    test "$command" = "$argv"
end
complete -c amdahl -f
)";

std::string fish_quoted(const std::string& text) {
  std::string result = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') result += '\\';
    result += c;
  }
  return result + "'";
}

/// Arguments for the candidates of a value or positional: "-x -a 'eager graph'".
std::string arguments(const Offer& offer) {
  if (offer.choices.empty()) return offer.files ? " -F" : "";
  const std::string choices = fish_quoted(fmt::format("{}", fmt::join(offer.choices, " ")));
  if (offer.several)
    return fmt::format(" -a \"(__fish_complete_list , 'string split \\\" \\\" -- {}')\"",
                       fmt::join(offer.choices, " "));
  return fmt::format(" {}-a {}", offer.files ? "-F " : "", choices);
}

void append_option(const OptionNode& option, const std::string& at, std::string& script) {
  if (option.positional) {
    const std::string offered = arguments(option.offer);
    if (!offered.empty()) script += fmt::format("complete -c amdahl {}{}\n", at, offered);
    return;
  }
  script += fmt::format("complete -c amdahl {}", at);
  for (const std::string& name : option.names)
    script += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  if (!option.is_flag() && !option.optional_value) script += " -r" + arguments(option.offer);
  script += fmt::format(" -d {}\n", fish_quoted(option.description));
}

}  // namespace

std::string fish_completion(const CommandNode& root) {
  std::string script = kFishHead;
  const std::vector<const CommandNode*> commands = all_commands(root);
  script += "set -g __amdahl_commands";
  for (const CommandNode* command : commands)
    if (command->words.size() > 1) script += " " + fish_quoted(command->name());
  script += "\n";
  for (const CommandNode* command : commands) {
    const std::string at = fmt::format("-n {}", fish_quoted("__amdahl_command " + command->name()));
    for (const CommandNode& below : command->commands)
      script +=
          fmt::format("complete -c amdahl {} -a {} -d {}\n", at, below.words.back(), fish_quoted(below.description));
    for (const OptionNode& option : command->options) append_option(option, at, script);
  }
  return script;
}

}  // namespace amdahl::cli
