#include "cli/help_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <sstream>

#include "amdahl/report.h"
#include "cli/command_tree.h"
#include "cli/output.h"

namespace amdahl::cli {
namespace {

// Groups of CLI11 hold what this format needs: a leading plus marks options for --help-all.
constexpr const char* kCommon = "Common";
constexpr size_t kColumn = 27;  // of descriptions

/// "-o, --output-dir DIR", "--trace[=FILE]", "runs ...".
std::string option_words(const OptionNode& node) {
  std::string text = fmt::format("{}", fmt::join(node.names, ", "));
  if (!node.positional && !node.is_flag()) text += node.optional_value ? "[=" + node.value + "]" : " " + node.value;
  return text + (node.repeated && !node.is_flag() ? " ..." : "");
}

std::string description_of(const OptionNode& node) {
  std::string text = node.description;
  if (!node.default_value.empty()) text += fmt::format("{}(default: {})", text.empty() ? "" : " ", node.default_value);
  if (node.required && !node.positional) text += text.empty() ? "(required)" : " (required)";
  return text;
}

std::string row(const std::string& words, const std::string& text) {
  const std::string line =
      fmt::format("  {:<{}}{}{}\n", words, kColumn - 2, words.size() + 2 < kColumn ? "" : "  ", text);
  return fitted_lines(line, static_cast<size_t>(terminal_columns()), kColumn - 2);
}

/// Examples in the width of the terminal: a long command goes on behind a backslash, as a shell reads it.
std::string footer_text(const std::string& footer) {
  const auto columns = static_cast<size_t>(terminal_columns());
  std::string text, line;
  for (std::istringstream lines(footer); std::getline(lines, line);) {
    const bool is_command = line.starts_with("  ") && columns > 2;
    std::string fitted = fitted_lines(line, is_command ? columns - 2 : columns);
    fitted.pop_back();
    for (size_t at = 0; is_command && (at = fitted.find('\n', at)) != std::string::npos; at += 3)
      fitted.replace(at, 1, " \\\n");
    text += fitted + "\n";
  }
  return text;
}

std::string full_name(const CLI::App* app) {
  return app->get_parent() ? full_name(app->get_parent()) + " " + app->get_name() : "amdahl";
}

class HelpFormat : public CLI::Formatter {
 public:
  std::map<const CLI::App*, std::string> details;

  std::string make_help(const CLI::App* app, std::string, CLI::AppFormatMode mode) const override {
    const bool all = mode == CLI::AppFormatMode::All, root = app->get_parent() == nullptr;
    const std::string name = full_name(app);
    std::string usage = name, arguments, common;
    std::vector<std::pair<std::string, std::string>> groups;  // in order of appearance
    size_t left_out = 0;
    for (const CLI::Option* option : app->get_options()) {
      std::string group = option->get_group();
      if (group.empty()) continue;
      const bool expert = group.front() == '+';
      // CLI11 passes options as const, but reads their validators, which hold the candidates, as non-const.
      const OptionNode node = option_node(const_cast<CLI::Option&>(*option));
      if (node.positional) {
        usage += fmt::format(" {}{}{}", node.required ? "" : "[", option_words(node), node.required ? "" : "]");
        arguments += row(option_words(node), description_of(node));
      } else if (group == kCommon && !root) {
        common += (common.empty() ? "" : ", ") + fmt::format("{}", fmt::join(node.names, "/"));
      } else if (expert && !all) {
        ++left_out;
      } else {
        if (expert) group = group.substr(1);
        auto found = std::find_if(groups.begin(), groups.end(), [&](const auto& each) { return each.first == group; });
        if (found == groups.end()) found = groups.insert(found, {group, ""});
        found->second += row(option_words(node), description_of(node));
      }
    }
    const auto commands = app->get_subcommands([](const CLI::App*) { return true; });
    std::string text = app->get_description() + "\n";
    text += fmt::format("usage: {}{} [options]\n\n", usage, commands.empty() ? "" : " COMMAND");
    if (!arguments.empty()) text += "Arguments:\n" + arguments;
    if (!commands.empty()) text += "Commands:\n";
    for (const CLI::App* command : commands) text += row(command->get_name(), command->get_description());
    for (const auto& [group, rows] : groups) text += fmt::format("{}:\n{}", group, rows);
    if (!common.empty()) text += fmt::format("Common: {} (see amdahl --help)\n", common);
    if (left_out > 0)
      text += fmt::format("{} more option{}: {} --help-all\n", left_out, left_out == 1 ? "" : "s", name);
    if (const std::string more = details_of(app); all && !more.empty()) text += "\n" + more;
    text = fitted_lines(text, static_cast<size_t>(terminal_columns()));
    return app->get_footer().empty() ? text : text + "\n" + footer_text(app->get_footer());
  }
};

}  // namespace

void use_help_format(CLI::App& app) {
  app.formatter(std::make_shared<HelpFormat>());
  app.set_help_flag("-h,--help", "The most used options and examples");
  app.set_help_all_flag("--help-all", "All options");
}

void arrange(CLI::App* app, std::initializer_list<HelpGroup> groups) {
  for (const HelpGroup& group : groups) {
    std::istringstream words(group.options);
    for (std::string word; words >> word;) {
      const bool expert = word.front() == '+';
      app->get_option(word.substr(expert ? 1 : 0))->group((expert ? "+" : "") + std::string(group.name));
    }
  }
}

void add_details(CLI::App* app, const std::string& text) {
  if (const auto format = std::dynamic_pointer_cast<HelpFormat>(app->get_formatter())) format->details[app] = text;
}

std::string details_of(const CLI::App* app) {
  const auto format = std::dynamic_pointer_cast<HelpFormat>(app->get_formatter());
  const auto found = format ? format->details.find(app) : std::map<const CLI::App*, std::string>::iterator{};
  return format && found != format->details.end() ? found->second : "";
}

}  // namespace amdahl::cli
