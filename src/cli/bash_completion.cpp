// Completion script for bash without dependencies.
#include <fmt/format.h>

#include "cli/command_tree.h"

namespace amdahl::cli {
namespace {

constexpr const char* kBashHead = R"(# bash completion for amdahl
_amdahl_files() {
  compopt -o filenames 2>/dev/null
  mapfile -t COMPREPLY < <(compgen -f -- "$1")
}
_amdahl_words() {
  mapfile -t COMPREPLY < <(compgen -W "$2" -- "$1")
}
_amdahl_list() {  # words joined with commas: completes the last one
  compopt -o nospace 2>/dev/null
  mapfile -t COMPREPLY < <(compgen -P "${1%"${1##*,}"}" -W "$2" -- "${1##*,}")
}
_amdahl() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} command=amdahl i
  COMPREPLY=()
  if [[ $current == '=' ]]; then
    current=
  elif [[ $previous == '=' ]]; then
    previous=${COMP_WORDS[COMP_CWORD-2]}
  fi
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "$command ${COMP_WORDS[i]}" in
)";

std::string bash_quoted(const std::string& word) { return "'" + word + "'"; }

/// "_amdahl_words "$current" 'eager graph'".
std::string reply(const Offer& offer) {
  if (offer.choices.empty()) return offer.files ? "_amdahl_files \"$current\"" : ":";
  const std::string words = fmt::format("{} \"$current\" '{}'", offer.several ? "_amdahl_list" : "_amdahl_words",
                                        fmt::join(offer.choices, " "));
  return offer.files ? words + "; [[ $COMPREPLY ]] || _amdahl_files \"$current\"" : words;
}

void append_values(const CommandNode& command, std::string& script) {
  for (const OptionNode& option : command.options) {
    if (option.positional || option.is_flag() || (option.optional_value && option.offer.choices.empty())) continue;
    std::vector<std::string> patterns;
    for (const std::string& name : option.names) patterns.push_back(bash_quoted(command.name() + " " + name));
    script += fmt::format("    {}) {}; return ;;\n", fmt::join(patterns, "|"), reply(option.offer));
  }
}

void append_text(const CommandNode& command, std::string& script) {
  std::vector<std::string> names, words;
  Offer offer;
  for (const OptionNode& option : command.options)
    if (option.positional)
      offer = option.offer;
    else
      names.insert(names.end(), option.names.begin(), option.names.end());
  for (const CommandNode& below : command.commands) offer.choices.push_back(below.words.back());
  script += fmt::format(
      "    {})\n      if [[ $current == -* ]]; then _amdahl_words \"$current\" '{}'\n      else {}; fi ;;\n",
      bash_quoted(command.name()), fmt::join(names, " "), reply(offer));
}

}  // namespace

std::string bash_completion(const CommandNode& root) {
  std::string script = kBashHead;
  const std::vector<const CommandNode*> commands = all_commands(root);
  std::vector<std::string> known;
  for (const CommandNode* command : commands)
    if (command->words.size() > 1) known.push_back(bash_quoted(command->name()));
  script += fmt::format("      {}) command+=\" ${{COMP_WORDS[i]}}\" ;;\n    esac\n  done\n", fmt::join(known, "|"));
  script += "  case \"$command $previous\" in\n";
  for (const CommandNode* command : commands) append_values(*command, script);
  script += "  esac\n  case \"$command\" in\n";
  for (const CommandNode* command : commands) append_text(*command, script);
  return script + "  esac\n}\ncomplete -F _amdahl amdahl\n";
}

}  // namespace amdahl::cli
