// Options of commands as TOML.
#include <fmt/format.h>

#include "amdahl/report.h"
#include "files/whole_file.h"
#include "spec/toml_document.h"
#include "spec/toml_files.h"

namespace amdahl {
namespace {

constexpr size_t kMostBytes = size_t{1} << 20;

class Reader {
 public:
  explicit Reader(std::string_view origin) : origin_(origin) {}

  void read(const toml::table& table, const std::string& command) {
    for (const auto& [key, node] : table) {
      const std::string name(key.str());
      if (const toml::table* inner = node.as_table()) {
        read(*inner, command.empty() ? name : fmt::format("{} {}", command, name));
        continue;
      }
      OptionSetting setting{command, name, {}, fmt::format("{}:{}", origin_, node.source().begin.line)};
      if (const toml::array* list = node.as_array())
        for (const toml::node& one : *list) setting.values.push_back(text_of(one, name, setting.where));
      else
        setting.values.push_back(text_of(node, name, setting.where));
      settings.push_back(std::move(setting));
    }
  }

  std::vector<OptionSetting> settings;

 private:
  static std::string text_of(const toml::node& node, const std::string& name, const std::string& where) {
    if (const auto* text = node.as_string()) return text->get();
    if (const auto* whole = node.as_integer()) return fmt::to_string(whole->get());
    if (const auto* number = node.as_floating_point()) return fmt::to_string(number->get());
    if (const auto* flag = node.as_boolean()) return flag->get() ? "true" : "false";
    throw Error(Cause::usage, fmt::format("{}: the value of {} is of a kind that no option has", where, name),
                "a text, a number, true or false, or a list of such");
  }

  std::string_view origin_;
};

}  // namespace

std::vector<OptionSetting> settings_from_toml(std::string_view text, std::string_view origin) {
  Reader reader(origin);
  reader.read(parse_toml(text, origin, "the example of docs/usage.md"), "");
  return std::move(reader.settings);
}

std::vector<OptionSetting> load_settings(const std::string& path) {
  return settings_from_toml(read_text_file(path, Cause::usage, kMostBytes), path);
}

}  // namespace amdahl
