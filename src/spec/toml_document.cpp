#include "spec/toml_document.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "amdahl/error.h"

namespace amdahl {
namespace {

struct TomlParserBroke {};

constexpr size_t kLongestText = 1000;  // length of a name or note, which appear in tables
// Limits beyond any real price in any currency; values computed from them stay finite.
constexpr double kSmallestAmount = 1e-9, kLargestAmount = 1e15;

/// The line of the first non-ASCII byte outside of single-line strings and comments; 0: none. TOML does not allow such
/// bytes there, and toml++ 3.3 fails on some of them (U+FEF7).
int64_t line_of_stray_byte(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);  // a byte order mark
  int64_t line = 1;
  char inside = 0;  // '#', or the quote character of a string
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\n') {
      ++line;
      inside = 0;
    } else if (inside == 0 && (static_cast<unsigned char>(c) & 0x80) != 0) {
      return line;
    } else if (inside == 0 && (c == '#' || c == '"' || c == '\'')) {
      const bool several_lines = c != '#' && text.substr(i, 3) == std::string(3, c);
      if (several_lines) i += 2;
      inside = several_lines ? 0 : c;
    } else if (inside == '"' && c == '\\') {
      ++i;
    } else if (inside == c && c != '#') {
      inside = 0;
    }
  }
  return 0;
}

}  // namespace

void toml_parser_broke() { throw TomlParserBroke(); }

toml::table parse_toml(std::string_view text, std::string_view origin, std::string_view example) {
  if (const int64_t line = line_of_stray_byte(text); line > 0)
    throw Error(Cause::usage,
                fmt::format("{}:{}: not valid TOML: a character beyond ASCII outside of quotes", origin, line),
                "plain keys, and quotes around texts of one line");
  try {
    return toml::parse(text, origin);
  } catch (const toml::parse_error& error) {
    throw Error(Cause::usage,
                fmt::format("{}:{}: not valid TOML: {}", origin, error.source().begin.line,
                            printable(error.description(), kLongestTomlExcerpt)),
                fmt::format("correct the line; {} of amdahl is an example", example));
  } catch (const TomlParserBroke&) {
    throw Error(Cause::usage, fmt::format("{}: not valid TOML", origin),
                fmt::format("correct its keys; {} of amdahl is an example", example));
  }
}

void TomlFields::fail(const toml::source_region& where, const std::string& problem, const std::string& remedy) const {
  throw Error(Cause::usage,
              fmt::format("{}:{}: {}", origin_, std::max<unsigned>(where.begin.line, 1),
                          printable(problem, kLongestTomlExcerpt)),
              remedy);
}
void TomlFields::fail(const std::string& problem, const std::string& remedy) const {
  fail(table_.source(), problem, remedy);
}

void TomlFields::refuse_unknown(const std::vector<std::string>& known) const {
  for (const auto& [key, node] : table_) {
    const std::string name(key.str());
    if (std::find(known.begin(), known.end(), name) == known.end())
      fail(key.source(), fmt::format("key '{}' is unknown", name), choices_hint(name, known));
  }
}

std::optional<std::string> TomlFields::text(const char* name) const {
  const toml::node* node = table_.get(name);
  if (!node) return std::nullopt;
  auto value = node->value_exact<std::string>();
  if (!value || value->empty())
    fail(node->source(), fmt::format("{} is no text", name), fmt::format("{} = \"...\"", name));
  if (value->size() > kLongestText)
    fail(node->source(), fmt::format("{} has {} bytes", name, value->size()), fmt::format("at most {}", kLongestText));
  return value;
}

std::optional<double> TomlFields::amount(const char* name, bool positive) const {
  const toml::node* node = table_.get(name);
  if (!node) return std::nullopt;
  const auto value = node->is_number() ? node->value<double>() : std::nullopt;
  const std::string remedy =
      fmt::format("a number from {} to {}, or no line for {}", positive ? kSmallestAmount : 0, kLargestAmount, name);
  if (!value || !std::isfinite(*value)) fail(node->source(), fmt::format("{} is no number", name), remedy);
  if (*value < (positive ? kSmallestAmount : 0) || *value > kLargestAmount)
    fail(node->source(), fmt::format("{} is {}", name, *value), remedy);
  return value;
}

std::optional<double> TomlFields::share(const char* name, double smallest, double largest) const {
  const toml::node* node = table_.get(name);
  if (!node) return std::nullopt;
  const auto value = node->is_number() ? node->value<double>() : std::nullopt;
  if (!value || !(*value > smallest) || !(*value <= largest))
    fail(node->source(), fmt::format("{} is no share", name),
         fmt::format("a number above {} and at most {}, or no line for {}", smallest, largest, name));
  return value;
}

std::optional<int64_t> TomlFields::count(const char* name) const {
  const toml::node* node = table_.get(name);
  if (!node) return std::nullopt;
  const auto value = node->value_exact<int64_t>();
  if (!value || *value < 1) fail(node->source(), fmt::format("{} is no count", name), "a whole number from 1");
  return value;
}

bool TomlFields::flag(const char* name) const {
  const toml::node* node = table_.get(name);
  if (!node) return false;
  const auto value = node->value_exact<bool>();
  if (!value) fail(node->source(), fmt::format("{} is neither true nor false", name), "true or false");
  return *value;
}

}  // namespace amdahl
