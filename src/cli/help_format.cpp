#include "cli/help_format.h"

#include <fmt/format.h>

#include <memory>

#include "cli/command_tree.h"

namespace amdahl::cli {
namespace {

// CLI11 passes options as const, but reads their validators, which hold the candidates, as non-const.
OptionNode node_of(const CLI::Option* option) { return option_node(const_cast<CLI::Option&>(*option)); }

class HelpFormat : public CLI::Formatter {
 public:
  std::string make_option_name(const CLI::Option* option, bool) const override {
    return fmt::format("{}", fmt::join(node_of(option).names, ", "));
  }

  /// " FILE", or "[=FILE]" for an optional value; empty for flags.
  std::string make_option_opts(const CLI::Option* option) const override {
    const OptionNode node = node_of(option);
    std::string more = node.repeated ? " ..." : "";
    if (node.positional) return more;
    if (node.is_flag()) return {};
    return (node.optional_value ? "[=" + node.value + "]" : " " + node.value) + more;
  }

  std::string make_option_desc(const CLI::Option* option) const override {
    const OptionNode node = node_of(option);
    std::string text = node.description;
    if (!node.default_value.empty())
      text += fmt::format("{}(default: {})", text.empty() ? "" : " ", node.default_value);
    if (node.required && !node.positional) text += text.empty() ? "(required)" : " (required)";
    return text;
  }
};

}  // namespace

void use_help_format(CLI::App& app) { app.formatter(std::make_shared<HelpFormat>()); }

}  // namespace amdahl::cli
