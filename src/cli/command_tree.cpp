#include "cli/command_tree.h"
#include "cli/help_format.h"
#include "cli/option_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>

namespace amdahl::cli {
namespace {

std::string_view placeholder(Unit unit) {
  switch (unit) {
    case Unit::bytes:
      return "SIZE";
    case Unit::seconds:
      return "TIME";
    case Unit::fraction:
    case Unit::percent:
      return "N%";
    case Unit::rate:
      return "GB/S";
    default:
      return "N";
  }
}

// Placeholder of a value: CLI11 says TEXT for everything; files become FILE, numbers N or their unit.
std::string value_name(const CLI::Option& option, const Offer& offer) {
  if (option.get_items_expected_max() == 0) return {};
  if (const std::optional<Unit> unit = unit_of(option)) return std::string(placeholder(*unit));
  if (option.check_lname("output-dir")) return "DIR";
  return offer.files && offer.choices.empty() ? "FILE" : offer.several ? "LIST" : "VALUE";
}

// The default value to show; empty when the description already states it.
std::string shown_default(const CLI::Option& option) {
  if (option.get_description().find("default: ") != std::string::npos) return {};
  std::string text = option.get_default_str();
  // CLI11 puts lists in brackets
  if (text.starts_with('[') && text.ends_with(']')) text = text.substr(1, text.size() - 2);
  return text;
}

}  // namespace

OptionNode option_node(CLI::Option& option) {
  OptionNode node;
  node.positional = option.get_positional();
  for (const std::string& name : option.get_snames()) node.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) node.names.push_back("--" + name);
  if (node.names.empty()) node.names.push_back(option.get_name(true));
  node.description = option.get_description();
  node.offer = offer_of(option);
  node.value = value_name(option, node.offer);
  if (!node.is_flag()) node.default_value = shown_default(option);
  node.required = option.get_required();
  node.repeated = option.get_items_expected_max() > 1;
  node.optional_value = !node.is_flag() && !node.positional && option.get_items_expected_min() == 0;
  return node;
}

namespace {

CommandNode node_of(CLI::App& app, std::vector<std::string> words) {
  CommandNode node;
  node.words = std::move(words);
  node.description = app.get_description();
  node.footer = app.get_footer();
  node.details = details_of(&app);
  for (CLI::Option* option : app.get_options())
    if (!option->get_group().empty()) node.options.push_back(option_node(*option));
  for (CLI::App* sub : app.get_subcommands([](CLI::App*) { return true; })) {
    std::vector<std::string> below = node.words;
    below.push_back(sub->get_name());
    node.commands.push_back(node_of(*sub, std::move(below)));
  }
  return node;
}

void collect(const CommandNode& node, std::vector<const CommandNode*>& all) {
  all.push_back(&node);
  for (const CommandNode& command : node.commands) collect(command, all);
}

}  // namespace

std::string CommandNode::name(const std::string& separator) const {
  return fmt::format("{}", fmt::join(words, separator));
}

CommandNode command_tree(CLI::App& app) { return node_of(app, {"amdahl"}); }

std::vector<const CommandNode*> all_commands(const CommandNode& root) {
  std::vector<const CommandNode*> all;
  collect(root, all);
  return all;
}

}  // namespace amdahl::cli
