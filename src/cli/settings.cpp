#include "cli/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "amdahl/error.h"
#include "amdahl/report.h"
#include "cli/option_values.h"

namespace amdahl::cli {
namespace {

constexpr std::string_view kConfig = "--config", kConfigVariable = "AMDAHL_CONFIG";

bool names_word(const OptionNode& option, const std::string& word) {
  return std::any_of(option.names.begin(), option.names.end(), [&](const std::string& name) {
    const bool is_long = name.starts_with("--");
    return word == name || word.starts_with(name + "=") ||
           (!is_long && !word.starts_with("--") && word.starts_with(name));
  });
}

std::string long_name(const OptionNode& option) {
  for (const std::string& name : option.names)
    if (name.starts_with("--")) return name;
  return {};
}

/// Options about the command line itself.
bool is_setting(const OptionNode& option) {
  const std::string name = long_name(option);
  return !option.positional && !name.empty() && name != "--help" && name != "--help-all" && name != "--version";
}

const OptionNode* find_option(const CommandNode& command, const std::string& name) {
  for (const OptionNode& option : command.options)
    if (is_setting(option) && std::find(option.names.begin(), option.names.end(), "--" + name) != option.names.end())
      return &option;
  return nullptr;
}

/// The command that the words name, and how many of them do.
std::pair<const CommandNode*, size_t> command_of(const std::vector<std::string>& words, const CommandNode& root) {
  const CommandNode* command = &root;
  size_t used = 1;
  for (; used < words.size(); ++used) {
    const auto next = std::find_if(command->commands.begin(), command->commands.end(),
                                   [&](const CommandNode& sub) { return sub.words.back() == words[used]; });
    if (next == command->commands.end()) break;
    command = &*next;
  }
  return {command, used};
}

/// "study", "sensor bench"; empty for the program.
std::string table_of(const CommandNode& command) {
  return fmt::format("{}", fmt::join(command.words.begin() + 1, command.words.end(), " "));
}

std::string variable_of(const OptionNode& option) {
  std::string name = "AMDAHL_" + long_name(option).substr(2);
  for (char& c : name) c = c == '-' ? '_' : static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  return name;
}

/// Every command and option of a file must exist, also those of commands that do not run now.
void check_settings(const std::vector<OptionSetting>& settings, const CommandNode& root) {
  const std::vector<const CommandNode*> commands = all_commands(root);
  std::vector<std::string> tables;
  for (const CommandNode* command : commands)
    if (command->words.size() > 1) tables.push_back(table_of(*command));
  for (const OptionSetting& setting : settings) {
    std::vector<std::string> known;
    bool is_table = setting.command.empty(), is_known = false;
    for (const CommandNode* command : commands) {
      if (!setting.command.empty() && table_of(*command) != setting.command) continue;
      is_table = true;
      is_known = is_known || find_option(*command, setting.option);
      for (const OptionNode& option : command->options)
        if (is_setting(option)) known.push_back(long_name(option).substr(2));
    }
    if (!is_table)
      throw Error(Cause::usage,
                  fmt::format("{}: amdahl has no command '{}'", setting.where, printable(setting.command, 60)),
                  choices_hint(setting.command, tables));
    const std::string near = nearest_name(setting.option, known);
    if (!is_known)
      throw Error(Cause::usage,
                  fmt::format("{}: {} has no option '{}'", setting.where,
                              setting.command.empty() ? "no command" : "amdahl " + setting.command,
                              printable(setting.option, 60)),
                  near.empty() ? fmt::format("amdahl {} --help-all lists them", setting.command) : near);
  }
}

/// As words of a command line; none for a flag that is off.
std::vector<std::string> words_of(const OptionNode& option, const std::vector<std::string>& values,
                                  const std::string& where) {
  const std::string name = long_name(option);
  if (!option.is_flag()) {
    if (values.empty()) throw Error(Cause::usage, fmt::format("{}: {} has no value", where, name), "a value");
    if (!option.repeated) return {name, fmt::format("{}", fmt::join(values, ","))};
    std::vector<std::string> words{name};
    words.insert(words.end(), values.begin(), values.end());
    return words;
  }
  const std::string value = values.size() == 1 ? values.front() : "";
  if (value == "true" || value == "1") return {name};
  if (value == "false" || value == "0") return {};
  throw Error(Cause::usage, fmt::format("{}: {} is '{}'", where, name, printable(value, 40)), "true or false");
}

/// Words after "--" are not the program's own.
size_t num_own(const std::vector<std::string>& words) {
  return static_cast<size_t>(std::find(words.begin(), words.end(), "--") - words.begin());
}

/// Takes --config out of the words.
std::string take_config(std::vector<std::string>& words, const std::map<std::string, std::string>& environment) {
  for (size_t i = 1; i < num_own(words); ++i) {
    if (words[i] != kConfig && !words[i].starts_with(std::string(kConfig) + "=")) continue;
    const bool joined = words[i] != kConfig;
    if (!joined && i + 1 == num_own(words)) throw Error(Cause::usage, "--config lacks its file", "--config FILE.toml");
    std::string file = joined ? words[i].substr(kConfig.size() + 1) : words[i + 1];
    words.erase(words.begin() + static_cast<std::ptrdiff_t>(i),
                words.begin() + static_cast<std::ptrdiff_t>(i + (joined ? 1 : 2)));
    if (file.empty()) throw Error(Cause::usage, "--config is empty", "--config FILE.toml");
    return file;
  }
  const auto variable = environment.find(std::string(kConfigVariable));
  return variable == environment.end() ? std::string() : variable->second;
}

}  // namespace

Settings with_settings(const std::vector<std::string>& words, const CommandNode& root,
                       const std::map<std::string, std::string>& environment) {
  Settings found{words, {}};
  const std::string file = take_config(found.words, environment);
  const std::vector<OptionSetting> settings = file.empty() ? std::vector<OptionSetting>{} : load_settings(file);
  check_settings(settings, root);
  const auto [command, used] = command_of(found.words, root);
  if (command == &root) return found;
  const auto own_end = [&] { return found.words.begin() + static_cast<std::ptrdiff_t>(num_own(found.words)); };
  const std::vector<std::string> given(found.words.begin() + static_cast<std::ptrdiff_t>(used), own_end());
  for (const OptionNode& option : command->options) {
    if (!is_setting(option)) continue;
    if (std::any_of(given.begin(), given.end(), [&](const std::string& word) { return names_word(option, word); }))
      continue;
    std::vector<std::string> added;
    std::string where;
    const std::string variable = variable_of(option);
    if (const auto value = environment.find(variable); value != environment.end() && !value->second.empty()) {
      added = words_of(option, {value->second}, where = variable);
    } else {
      const OptionSetting* chosen = nullptr;
      for (const OptionSetting& setting : settings)
        if (find_option(*command, setting.option) == &option &&
            (setting.command == table_of(*command) || (setting.command.empty() && !chosen)))
          chosen = &setting;
      if (chosen) added = words_of(option, chosen->values, where = chosen->where);
    }
    if (added.empty()) continue;
    found.words.insert(own_end(), added.begin(), added.end());
    found.sources += fmt::format("{}{} sets {}", found.sources.empty() ? "" : ", ", where, long_name(option));
  }
  return found;
}

}  // namespace amdahl::cli
