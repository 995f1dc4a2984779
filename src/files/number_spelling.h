// Numbers as people and programs write them: decimal commas, thousands separators, currencies, percent signs, other
// minus signs and blanks around them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace amdahl {

/// A text that is a number under at least one of two conventions, or none: a decimal point ("1,234.5") and a decimal
/// comma ("1.234,5"). Digits may be grouped by blanks, apostrophes and underscores in both.
struct SpelledNumber {
  bool with_point = false, with_comma = false;  // readable under the convention
  double point = 0, comma = 0;                  // its value under it
  bool percent = false;
  std::string currency;  // "$", "EUR"; empty without one

  bool readable() const { return with_point || with_comma; }
};
SpelledNumber spell_number(std::string_view text);

/// How often one kind of field occurs in a column, and its first occurrence.
struct CellTally {
  int64_t count = 0;
  int64_t first_line = 0;
  std::string first_text;

  void add(int64_t line, std::string_view text);
};

/// The spellings of a column, from which one convention for all of its numbers follows, or none.
class ColumnSpelling {
 public:
  /// A field that parse_number reads.
  void add_plain(int64_t line, std::string_view text);
  /// Any other number.
  void add_spelled(int64_t line, std::string_view text, const SpelledNumber& number);

  /// Fields that are numbers in another spelling than parse_number's.
  const CellTally& spelled() const { return spelled_; }
  /// Whether the numbers have a decimal comma. Only after `conflict` found none.
  bool has_decimal_comma() const { return point_is_wrong_.count > 0; }
  /// Why the numbers cannot all be read, and the field that shows it; empty when they can.
  struct Conflict {
    std::string what;
    const CellTally* at = nullptr;
  };
  Conflict conflict() const;
  /// "'0,5' in line 3 is read as 0.5"; empty where all numbers are plain.
  std::string note() const;

 private:
  CellTally plain_, spelled_;
  CellTally point_is_wrong_, comma_is_wrong_;  // readable under the other convention only
  CellTally ambiguous_;                        // spelled, and different numbers under the two
  CellTally percent_, no_percent_, currency_, other_currency_;
  std::string symbol_;
};

}  // namespace amdahl
