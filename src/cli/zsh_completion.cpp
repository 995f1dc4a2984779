// Completion script for zsh: one function per command, in the form that _arguments requires.
#include <fmt/format.h>

#include "cli/command_tree.h"

namespace amdahl::cli {
namespace {

/// Escapes text for single quotes and the brackets of a specification.
std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '\'') {
      result += "'\\''";
      continue;
    }
    if (c == '[' || c == ']' || c == ':' || c == '\\') result += '\\';
    result += c;
  }
  return result;
}

std::string action(const Offer& offer) {
  const std::string choices = fmt::format("{}", fmt::join(offer.choices, " "));
  if (offer.choices.empty()) return offer.files ? "_files" : " ";
  if (offer.several) return fmt::format("_values -s , value {}", choices);
  return offer.files ? fmt::format("{{_alternative \"words:word:({})\" \"files:file:_files\"}}", choices)
                     : fmt::format("({})", choices);
}

/// "'(-o --output-dir)'{-o,--output-dir}'[Run folder]:FILE:_files'".
std::string specification(const OptionNode& option) {
  if (option.positional)
    return fmt::format("'{}:{}:{}'", option.repeated ? "*" : "", escaped(option.names.front()), action(option.offer));
  std::string tail = fmt::format("[{}]", escaped(option.description));
  if (!option.is_flag())
    tail += fmt::format("{}:{}:{}", option.optional_value ? ":" : "", option.value, action(option.offer));
  const std::string lead = option.repeated ? "*" : "";
  if (option.names.size() == 1) return fmt::format("'{}{}{}'", lead, option.names.front(), tail);
  const std::string exclusion = option.repeated ? "" : fmt::format("({})", fmt::join(option.names, " "));
  return fmt::format("'{}{}'{{{}}}'{}'", exclusion, lead, fmt::join(option.names, ","), tail);
}

void append_function(const CommandNode& command, std::string& script) {
  script += fmt::format("_{}() {{\n", command.name("_"));
  if (!command.commands.empty()) script += "  local curcontext=$curcontext state line\n";
  script += fmt::format("  _arguments -s {}", command.commands.empty() ? "" : "-C ");
  for (const OptionNode& option : command.options) script += " \\\n    " + specification(option);
  if (!command.commands.empty()) {
    script +=
        " \\\n    '1:command:->command' '*::argument:->argument'\n  case $state in\n  command)\n    local commands=(";
    for (const CommandNode& below : command.commands)
      script += fmt::format("\n      '{}:{}'", below.words.back(), escaped(below.description));
    script += ")\n    _describe command commands ;;\n  argument)\n    case $line[1] in\n";
    for (const CommandNode& below : command.commands)
      script += fmt::format("    {}) _{} ;;\n", below.words.back(), below.name("_"));
    script += "    esac ;;\n  esac";
  }
  script += "\n}\n";
}

}  // namespace

std::string zsh_completion(const CommandNode& root) {
  std::string script = "#compdef amdahl\n# zsh completion for amdahl\n";
  for (const CommandNode* command : all_commands(root)) append_function(*command, script);
  return script + "if [[ $funcstack[1] == _amdahl ]]; then _amdahl \"$@\"; else compdef _amdahl amdahl; fi\n";
}

}  // namespace amdahl::cli
