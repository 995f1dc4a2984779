// TOML documents whose errors name file, line and key. Sources that include this header are compiled on their own
// (no unity build): it sets macros of toml++.
//
// Example:
//   const toml::table document = parse_toml(text, "prices.toml", "data/prices.toml");
//   const TomlFields fields(document, "prices.toml");
//   fields.refuse_unknown({"currency"});
//   const std::optional<std::string> currency = fields.text("currency");
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace amdahl {

/// Throws what parse_toml catches: an internal assertion of toml++ failed.
[[noreturn]] void toml_parser_broke();

}  // namespace amdahl

// Damaged files violate assertions of toml++, which optimised builds rely on: for example a carriage return within a
// key. The assertions stay enabled here, as exceptions.
#undef NDEBUG
#define TOML_ASSERT(condition) ((condition) ? static_cast<void>(0) : amdahl::toml_parser_broke())
#include <toml++/toml.h>

namespace amdahl {

/// Longest part of the user's text in an error.
inline constexpr size_t kLongestTomlExcerpt = 120;

/// Error{usage} "FILE:LINE: not valid TOML: ..." with `example`, a file of this project, in the remedy.
toml::table parse_toml(std::string_view text, std::string_view origin, std::string_view example);

/// One table of a document, which it does not own. Every failed read throws Error{usage} with the message
/// "FILE:LINE: KEY ...".
class TomlFields {
 public:
  TomlFields(const toml::table& table, std::string_view origin) : table_(table), origin_(origin) {}

  [[noreturn]] void fail(const toml::source_region& where, const std::string& problem, const std::string& remedy) const;
  [[noreturn]] void fail(const std::string& problem, const std::string& remedy) const;
  void refuse_unknown(const std::vector<std::string>& known) const;

  // Absent when the key is not there.
  std::optional<std::string> text(const char* name) const;
  /// A number at or above 0, or above 0 if `positive`.
  std::optional<double> amount(const char* name, bool positive) const;
  /// A share above `smallest` (or at or above it, if it is negative) and at most `largest`.
  std::optional<double> share(const char* name, double smallest, double largest) const;
  /// A whole number from 1.
  std::optional<int64_t> count(const char* name) const;
  /// False when the key is not there.
  bool flag(const char* name) const;
  const toml::node* node(const char* name) const { return table_.get(name); }

 private:
  const toml::table& table_;
  std::string_view origin_;
};

}  // namespace amdahl
