#include "files/number_spelling.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "amdahl/error.h"
#include "files/text_tokens.h"

namespace amdahl {
namespace {

constexpr std::string_view kGroupMarks = " '_";  // between thousands, whatever the decimal mark

/// Characters beyond ASCII and what they stand for.
constexpr std::array<std::pair<std::string_view, char>, 13> kLikeAscii{{
    {"\xC2\xA0", ' '},       // no-break space
    {"\xE2\x80\x87", ' '},   // figure space
    {"\xE2\x80\x89", ' '},   // thin space
    {"\xE2\x80\xAF", ' '},   // narrow no-break space
    {"\xE2\x88\x92", '-'},   // minus sign
    {"\xE2\x80\x90", '-'},   // hyphen
    {"\xE2\x80\x91", '-'},   // non-breaking hyphen
    {"\xE2\x80\x92", '-'},   // figure dash
    {"\xE2\x80\x93", '-'},   // en dash
    {"\xEF\xB9\xA3", '-'},   // small hyphen-minus
    {"\xEF\xBC\x8D", '-'},   // fullwidth hyphen-minus
    {"\xE2\x80\x99", '\''},  // right single quotation mark
    {"\xCA\xBC", '\''},      // modifier apostrophe
}};

constexpr std::array<std::string_view, 20> kCurrencies{"$",   "\xC2\xA3", "\xC2\xA5", "USD", "EUR", "GBP", "JPY",
                                                       "CNY", "INR",      "CHF",      "AUD", "CAD", "SEK", "NOK",
                                                       "DKK", "PLN",      "BRL",      "R$",  "Rs.", "kr"};

std::string to_ascii(std::string_view text) {
  std::string plain;
  plain.reserve(text.size());
  while (!text.empty()) {
    const auto known = std::find_if(kLikeAscii.begin(), kLikeAscii.end(),
                                    [&](const auto& row) { return text.starts_with(row.first); });
    plain.push_back(known == kLikeAscii.end() ? text[0] : known->second);
    text.remove_prefix(known == kLikeAscii.end() ? 1 : known->first.size());
  }
  return plain;
}

void trim(std::string_view& text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
}

/// Bytes of a currency at the begin or the end of the text; 0 when there is none.
size_t currency_size(std::string_view text, bool at_end) {
  // U+20A0 to U+20BF, the block of currency signs: E2 82 A0 to E2 82 BF
  const std::string_view sign = text.size() < 3 ? text : at_end ? text.substr(text.size() - 3) : text.substr(0, 3);
  if (sign.starts_with("\xE2\x82") && sign.size() == 3 && static_cast<unsigned char>(sign[2]) >= 0xA0) return 3;
  size_t longest = 0;
  for (const std::string_view known : kCurrencies)
    if (at_end ? text.ends_with(known) : text.starts_with(known)) longest = std::max(longest, known.size());
  return longest;
}

void take_currency(std::string_view& text, std::string& currency) {
  if (!currency.empty()) return;
  if (const size_t size = currency_size(text, false); size > 0) {
    currency = text.substr(0, size);
    text.remove_prefix(size);
  } else if (const size_t last = currency_size(text, true); last > 0) {
    currency = text.substr(text.size() - last);
    text.remove_suffix(last);
  }
  trim(text);
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Digits of the whole part without the marks between its groups; nullopt when the groups are not those of a number:
/// one mark throughout, three digits behind each, or two but for the last as in 1,23,456.
std::optional<std::string> join_groups(std::string_view whole, char group_mark) {
  std::string digits;
  std::vector<size_t> sizes(1, 0);
  char mark = 0;
  for (const char c : whole) {
    if (is_digit(c)) {
      digits.push_back(c);
      ++sizes.back();
      continue;
    }
    if ((c != group_mark && kGroupMarks.find(c) == std::string_view::npos) || (mark != 0 && c != mark))
      return std::nullopt;
    mark = c;
    sizes.push_back(0);
  }
  if (sizes.size() == 1) return digits;
  const bool inner_of_two = mark == ',' && sizes.size() > 2 && sizes[1] == 2;
  for (size_t i = 1; i < sizes.size(); ++i)
    if (sizes[i] != (inner_of_two && i + 1 < sizes.size() ? 2U : 3U)) return std::nullopt;
  if (sizes[0] < 1 || sizes[0] > 3 || digits[0] == '0') return std::nullopt;
  return digits;
}

/// The value of an unsigned number with this decimal mark.
std::optional<double> value_of(std::string_view text, char decimal_mark) {
  const size_t exponent = text.find_first_of("eE");
  const std::string_view mantissa = text.substr(0, exponent);
  const size_t mark = mantissa.find(decimal_mark);
  const std::string_view fraction = mark == std::string_view::npos ? "" : mantissa.substr(mark + 1);
  const auto whole = join_groups(mantissa.substr(0, mark), decimal_mark == '.' ? ',' : '.');
  if (!whole || whole->size() + fraction.size() == 0 || !std::all_of(fraction.begin(), fraction.end(), is_digit))
    return std::nullopt;
  std::string plain = *whole + "." + std::string(fraction);
  if (exponent != std::string_view::npos) plain += text.substr(exponent);
  double value = 0;
  if (!parse_number(plain, value)) return std::nullopt;
  return value;
}

}  // namespace

SpelledNumber spell_number(std::string_view given) {
  constexpr size_t kLongest = 64;
  SpelledNumber number;
  if (given.empty() || given.size() > kLongest || std::none_of(given.begin(), given.end(), is_digit)) return number;
  const std::string ascii = to_ascii(given);
  std::string_view text = ascii;
  trim(text);
  bool negative = false, has_sign = false;
  const auto take_sign = [&] {
    if (has_sign || text.empty() || (text[0] != '-' && text[0] != '+')) return;
    has_sign = true;
    negative = text[0] == '-';
    text.remove_prefix(1);
    trim(text);
  };
  if (text.size() > 2 && text.front() == '(' && text.back() == ')') {  // how accounts write a negative number
    has_sign = negative = true;
    text = text.substr(1, text.size() - 2);
    trim(text);
  }
  take_sign();
  take_currency(text, number.currency);
  take_sign();
  if (text.ends_with('%')) {
    number.percent = true;
    text.remove_suffix(1);
    trim(text);
  }
  if (text.empty() || (!is_digit(text[0]) && text[0] != '.' && text[0] != ',')) return number;
  const double sign = negative ? -1 : 1;
  if (const auto value = value_of(text, '.')) number.with_point = true, number.point = sign * *value;
  if (const auto value = value_of(text, ',')) number.with_comma = true, number.comma = sign * *value;
  return number;
}

void CellTally::add(int64_t line, std::string_view text) {
  if (count++ != 0) return;
  first_line = line;
  first_text = text;
}

void ColumnSpelling::add_plain(int64_t line, std::string_view text) {
  plain_.add(line, text);
  const size_t point = text.find('.');
  if (point == std::string_view::npos) return;
  // With a decimal comma the point would stand between thousands: only the few texts of that form are looked at.
  constexpr size_t kLongest = 9;  // " -123.456"
  if (text.size() > kLongest || text.size() - point != 4 || !spell_number(text).with_comma)
    comma_is_wrong_.add(line, text);
}

void ColumnSpelling::add_spelled(int64_t line, std::string_view text, const SpelledNumber& number) {
  spelled_.add(line, text);
  if (!number.with_point) point_is_wrong_.add(line, text);
  if (!number.with_comma) comma_is_wrong_.add(line, text);
  if (number.with_point && number.with_comma && number.point != number.comma) ambiguous_.add(line, text);
  (number.percent ? percent_ : no_percent_).add(line, text);
  if (number.currency.empty()) return;
  if (currency_.count == 0) symbol_ = number.currency;
  (number.currency == symbol_ ? currency_ : other_currency_).add(line, text);
}

ColumnSpelling::Conflict ColumnSpelling::conflict() const {
  if (spelled_.count == 0) return {};
  const auto two = [](const char* first, const CellTally& a, const char* second, const CellTally& b) {
    const bool order = a.first_line <= b.first_line;
    const CellTally &early = order ? a : b, &late = order ? b : a;
    return Conflict{
        fmt::format("'{}' has {}, and '{}' in line {} has {}", printable(late.first_text, 40), order ? second : first,
                    printable(early.first_text, 40), early.first_line, order ? first : second),
        &late};
  };
  if (point_is_wrong_.count > 0 && comma_is_wrong_.count > 0)
    return two("a decimal comma", point_is_wrong_, "a decimal point", comma_is_wrong_);
  if (point_is_wrong_.count == 0 && comma_is_wrong_.count == 0 && ambiguous_.count > 0)
    return {fmt::format("'{}' may be {} or {}: its comma is a decimal one or stands between thousands",
                        printable(ambiguous_.first_text, 40), spell_number(ambiguous_.first_text).comma,
                        spell_number(ambiguous_.first_text).point),
            &ambiguous_};
  if (percent_.count > 0 && no_percent_.count + plain_.count > 0)
    return two("a percent sign", percent_, "none", plain_.count > 0 ? plain_ : no_percent_);
  if (other_currency_.count > 0) return two("one currency", currency_, "another one", other_currency_);
  return {};
}

std::string ColumnSpelling::note() const {
  if (spelled_.count == 0) return {};
  const SpelledNumber number = spell_number(spelled_.first_text);
  return fmt::format("'{}' in line {} is read as {}", printable(spelled_.first_text, 40), spelled_.first_line,
                     has_decimal_comma() ? number.comma : number.point);
}

}  // namespace amdahl
