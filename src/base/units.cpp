#include "amdahl/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>

namespace amdahl {
namespace {

struct Suffix {
  Unit unit;
  std::string_view text;  // lower case; input may have any case
  double factor;
};

constexpr Suffix kSuffixes[] = {
    {Unit::count, "k", 1e3},      {Unit::count, "m", 1e6},      {Unit::count, "b", 1e9},
    {Unit::count, "g", 1e9},      {Unit::bytes, "b", 1},        {Unit::bytes, "k", 0x1p10},
    {Unit::bytes, "m", 0x1p20},   {Unit::bytes, "g", 0x1p30},   {Unit::bytes, "t", 0x1p40},
    {Unit::bytes, "kb", 0x1p10},  {Unit::bytes, "mb", 0x1p20},  {Unit::bytes, "gb", 0x1p30},
    {Unit::bytes, "tb", 0x1p40},  {Unit::bytes, "kib", 0x1p10}, {Unit::bytes, "mib", 0x1p20},
    {Unit::bytes, "gib", 0x1p30}, {Unit::bytes, "tib", 0x1p40}, {Unit::seconds, "us", 1e-6},
    {Unit::seconds, "ms", 1e-3},  {Unit::seconds, "s", 1},      {Unit::seconds, "m", 60},
    {Unit::seconds, "min", 60},   {Unit::seconds, "h", 3600},   {Unit::fraction, "%", 0.01},
    {Unit::percent, "%", 1},      {Unit::rate, "mb/s", 1e-3},   {Unit::rate, "gb/s", 1},
    {Unit::rate, "tb/s", 1e3},
};

struct UnitName {
  std::string_view name, example, examples;
};

/// In the order of Unit.
constexpr UnitName kUnitNames[] = {
    {"number", "1", "0.5"},
    {"whole number", "8", "250k or 6.9M"},
    {"size", "32M", "8, 32M or 1GiB"},
    {"duration", "60", "90s, 5m or 1h"},
    {"fraction", "0.01", "0.01 or 1%"},
    {"percentage", "3", "3 or 3%"},
    {"rate", "230", "230 or 230GB/s"},
};

const UnitName& name_of(Unit unit) { return kUnitNames[static_cast<size_t>(unit)]; }

/// `what` as part of a remedy: an option is repeated, so that the remedy can be typed.
std::string proposal(std::string_view what, std::string_view value) {
  return what.starts_with('-') ? fmt::format("{}{}{}", what, what.ends_with('=') ? "" : " ", value)
                               : std::string(value);
}

/// `what` as the subject of a message: "--trace steps" of "--trace steps=".
std::string_view subject_of(std::string_view what) { return what.substr(0, what.size() - what.ends_with('=')); }

[[noreturn]] void refuse(std::string_view text, std::string_view what, std::string_view value, Unit unit) {
  throw Error(Cause::usage, fmt::format("{}: '{}' is no {}", subject_of(what), text, name_of(unit).name),
              fmt::format("{}, or a value like {}", proposal(what, value), name_of(unit).examples));
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

/// The factor of a suffix in lower case; nullopt for one that the unit does not have.
std::optional<double> factor_of(std::string_view suffix, Unit unit) {
  if (suffix.empty()) return 1;
  for (const Suffix& known : kSuffixes)
    if (known.unit == unit && known.text == suffix) return known.factor;
  return std::nullopt;
}

/// 54,403 without its commas. A comma elsewhere belongs to a list, or to a decimal of another language.
std::string without_thousands(std::string_view text, Unit unit) {
  std::string digits(text);
  if (unit != Unit::count || text.find(',') == std::string_view::npos) return digits;
  const size_t end = text.find_first_not_of("0123456789,");
  const std::string_view number = text.substr(0, end);
  for (size_t at = number.size(); at > 4; at -= 4)
    if (number[at - 4] != ',' || number.substr(at - 3, 3).find(',') != std::string_view::npos) return digits;
  std::erase(digits, ',');
  return digits;
}

struct Scaled {
  double number = 0, factor = 1;
};

/// A valid text near one that is none: its number with as much of its suffix as the unit has.
std::string near_value(std::string text, Unit unit) {
  const bool whole = unit == Unit::count || unit == Unit::bytes;
  std::erase(text, ' ');
  if (whole) std::erase(text, ',');
  std::replace(text.begin(), text.end(), ',', '.');
  const std::string_view digits =
      std::string_view(text).substr(std::min(text.find_first_of("0123456789."), text.size()));
  double number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  const std::string_view rest(end, static_cast<size_t>(digits.data() + digits.size() - end));
  const bool hexadecimal = rest.starts_with('x') && number == 0;
  if (error != std::errc{} || hexadecimal || !(number > 0 && number < 1e9)) return std::string(name_of(unit).example);
  const std::string value = fmt::format("{}", number);
  for (size_t length = rest.size(); length > 0; --length)
    if (factor_of(lower_case(rest.substr(0, length)), unit)) return value + std::string(rest.substr(0, length));
  if (unit == Unit::bytes && !rest.empty()) return value + "M";
  if (unit == Unit::fraction && number >= 1) return value + "%";
  return whole ? fmt::format("{:.0f}", std::max(1.0, number)) : value;
}

Scaled scaled_of(std::string_view text, Unit unit, std::string_view what) {
  const std::string digits = without_thousands(text.substr(text.starts_with('+') ? 1 : 0), unit);
  Scaled found;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), found.number);
  const std::string rest(end, static_cast<size_t>(digits.data() + digits.size() - end));
  const std::optional<double> factor = factor_of(lower_case(rest), unit);
  const bool is_octal = unit == Unit::count && digits.size() > 1 && digits[0] == '0' && digits[1] != '.';
  if (error != std::errc{} || !factor || !std::isfinite(found.number) || is_octal ||
      (unit != Unit::number && !(found.number >= 0)))
    refuse(text, what, near_value(digits, unit), unit);
  found.factor = *factor;
  return found;
}

std::vector<std::string_view> split_at(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0; begin <= text.size(); begin += parts.back().size() + 1)
    parts.push_back(text.substr(begin, std::min(text.find(separator, begin), text.size()) - begin));
  return parts;
}

/// The numbers between separators, by `parse`. The whole text is proposed, with every wrong number replaced.
template <class Number>
std::vector<Number> parse_parts(std::string_view text, char separator, Unit unit, std::string_view what,
                                const std::function<Number(std::string_view)>& parse) {
  std::vector<Number> numbers;
  std::string problem, proposed;
  for (const std::string_view part : split_at(text, separator)) {
    if (!proposed.empty()) proposed += separator;
    try {
      numbers.push_back(parse(part));
      proposed += part;
    } catch (const Error& error) {
      if (problem.empty()) problem = error.what();
      proposed += near_value(std::string(part), unit);
    }
  }
  if (problem.empty()) return numbers;
  throw Error(Cause::usage, problem,
              fmt::format("{}, or numbers like {}", proposal(what, proposed), name_of(unit).examples));
}

/// An item of a list of counts. `list` is proposed with the item replaced by a valid one.
int64_t parse_item(std::string_view item, std::string_view list, std::string_view what) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(item.data(), item.data() + item.size(), value);
  if (!item.empty() && error == std::errc{} && end == item.data() + item.size()) return value;
  try {
    return parse_whole(item, Unit::count, "");
  } catch (const Error&) {
    std::string near = near_value(std::string(item), Unit::count);
    if (const size_t dash = item.find('-'); dash != std::string_view::npos && dash > 0)
      near = fmt::format("{}..{}", item.substr(0, dash), item.substr(dash + 1));
    const size_t at = static_cast<size_t>(item.data() - list.data());
    std::string whole = fmt::format("{}{}{}", list.substr(0, at), near, list.substr(at + item.size()));
    if (item.empty()) whole = "1,2,4";
    throw Error(Cause::usage, fmt::format("{}: '{}' is no whole number", what, item),
                fmt::format("{}, or a list like 8 or 1,2,4 or 1..8x2", proposal(what, whole)));
  }
}

// Whether last - first <= most, for first <= last.
bool spans_at_most(int64_t first, int64_t last, uint64_t most) {
  return static_cast<uint64_t>(last) - static_cast<uint64_t>(first) <= most;
}

/// Characters that show nothing themselves and change how others are shown or read: they end lines, turn the direction
/// of text around, join, or have no width.
bool is_invisible(uint32_t point) {
  constexpr std::pair<uint32_t, uint32_t> kRanges[] = {
      {0xad, 0xad},     {0x34f, 0x34f},   {0x61c, 0x61c},     {0x115f, 0x1160},  {0x17b4, 0x17b5}, {0x180b, 0x180f},
      {0x200b, 0x200f}, {0x2028, 0x202e}, {0x2060, 0x206f},   {0x3164, 0x3164},  {0xfe00, 0xfe0f}, {0xfeff, 0xfeff},
      {0xffa0, 0xffa0}, {0xfff0, 0xfffb}, {0x1d173, 0x1d17a}, {0xe0000, 0xe0fff}};
  return std::any_of(std::begin(kRanges), std::end(kRanges),
                     [&](const auto& range) { return point >= range.first && point <= range.second; });
}

uint32_t code_point(std::string_view character) {
  const auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<unsigned char>(character[i])); };
  uint32_t point = byte(0) & (0xffu >> (character.size() + 1));
  for (size_t i = 1; i < character.size(); ++i) point = point << 6 | (byte(i) & 0x3f);
  return point;
}

// Bytes of the UTF-8 character at the start of `text`; 0 for invalid bytes, control and invisible characters.
size_t shown_length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byte(0) < 0x80) return byte(0) >= 0x20 && byte(0) != 0x7f ? 1 : 0;
  const size_t length = byte(0) >= 0xf0 ? 4 : byte(0) >= 0xe0 ? 3 : 2;
  if (byte(0) < 0xc2 || byte(0) > 0xf4 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  const bool control = byte(0) == 0xc2 && byte(1) < 0xa0;
  const bool overlong = (byte(0) == 0xe0 && byte(1) < 0xa0) || (byte(0) == 0xf0 && byte(1) < 0x90);
  const bool beyond = (byte(0) == 0xed && byte(1) >= 0xa0) || (byte(0) == 0xf4 && byte(1) >= 0x90);  // of Unicode
  const bool invisible = is_invisible(code_point(text.substr(0, length)));
  return control || overlong || beyond || invisible ? 0 : length;
}

std::string escaped(std::string_view text) {
  std::string shown;
  for (size_t at = 0; at < text.size();) {
    const size_t length = shown_length(text.substr(at));
    if (length == 0)
      shown += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[at]));
    else
      shown += text.substr(at, length);
    at += std::max<size_t>(length, 1);
  }
  return shown;
}

}  // namespace

std::string printable(std::string_view text, size_t longest) {
  if (text.size() <= longest) return escaped(text);
  // The subject of a message is at its beginning, the cause often at its end.
  const size_t tail = longest / 3;
  return escaped(text.substr(0, longest - tail)) + " ... " + escaped(text.substr(text.size() - tail));
}

double parse_quantity(std::string_view text, Unit unit, std::string_view what) {
  const Scaled found = scaled_of(text, unit, what);
  return found.number * found.factor;
}

int64_t parse_whole(std::string_view text, Unit unit, std::string_view what) {
  int64_t whole = 0;  // beyond 2^53 a double is not exact
  const bool starts_with_zero = text.size() > 1 && text.front() == '0';
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), whole);
  if (error == std::errc{} && end == text.data() + text.size() && whole >= 0 && !starts_with_zero) return whole;
  const Scaled found = scaled_of(text, unit, what);
  const double scaled = std::round(found.number * found.factor);
  const bool is_whole = found.factor > 1 || scaled == found.number;
  if (!is_whole || !(scaled >= 0 && scaled <= 9e18)) refuse(text, what, near_value(std::string(text), unit), unit);
  return static_cast<int64_t>(scaled);
}

std::vector<double> parse_quantities(std::string_view text, Unit unit, std::string_view what) {
  return parse_parts<double>(text, ',', unit, what,
                             [&](std::string_view part) { return parse_quantity(part, unit, what); });
}

std::vector<int64_t> parse_like(std::string_view example, std::string_view text, std::string_view what,
                                int64_t minimum) {
  const size_t digits = example.find_first_not_of("0123456789");
  const char separator = digits == std::string_view::npos ? '\0' : example[digits];
  if (split_at(text, separator).size() != split_at(example, separator).size())
    throw Error(Cause::usage, fmt::format("{}: '{}' is no value like {}", subject_of(what), text, example),
                proposal(what, example));
  return parse_parts<int64_t>(text, separator, Unit::count, what, [&](std::string_view part) {
    const int64_t value = parse_whole(part, Unit::count, what);
    if (value < minimum) throw Error(Cause::usage, fmt::format("{}: {} is too small", subject_of(what), value));
    return value;
  });
}

std::vector<int64_t> parse_count_list(std::string_view text, std::string_view what, int64_t minimum) {
  std::vector<int64_t> values;
  for (const std::string_view item : split_at(text, ',')) {
    const size_t dots = item.find("..");
    if (dots == std::string_view::npos) {
      values.push_back(parse_item(item, text, what));
    } else {
      const std::string_view tail = item.substr(dots + 2);
      const size_t times = tail.find('x');
      const int64_t first = parse_item(item.substr(0, dots), text, what);
      const int64_t last = parse_item(tail.substr(0, times), text, what);
      const int64_t factor = times == std::string_view::npos ? 0 : parse_item(tail.substr(times + 1), text, what);
      const bool scaled = times != std::string_view::npos;
      if (last < first || (scaled && (factor < 2 || first < 1)) || !spans_at_most(first, last, 1'000'000))
        throw Error(Cause::usage, fmt::format("{}: '{}' is no range", what, item),
                    fmt::format("{}, or 1..8x2", proposal(what, "1..4")));
      const auto is_last = [&](int64_t v) { return scaled ? v > last / factor : v == last; };
      for (int64_t v = first;; v = scaled ? v * factor : v + 1) {
        values.push_back(v);
        if (is_last(v)) break;
      }
    }
  }
  for (int64_t v : values)
    if (v < minimum)
      throw Error(Cause::usage, fmt::format("{}: {} is too small", what, v),
                  fmt::format("{}, or other values of at least {}", proposal(what, std::to_string(minimum)), minimum));
  return values;
}

std::string with_thousands(int64_t value) {
  const auto bits = static_cast<uint64_t>(value);
  std::string digits = std::to_string(value < 0 ? 0 - bits : bits);  // -INT64_MIN is no int64_t
  for (int64_t at = static_cast<int64_t>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<size_t>(at), ",");
  return value < 0 ? "-" + digits : digits;
}

std::string format_bytes(double bytes) {
  static constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB"};
  size_t unit = 0;
  while (std::abs(bytes) >= 1000.0 && unit + 1 < std::size(kUnits)) {
    bytes /= 1000.0;
    ++unit;
  }
  return unit == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{:.1f} {}", bytes, kUnits[unit]);
}

std::string format_duration(double seconds) {
  // Each limit is where rounding would give 1000 us, 1000 ms or 60.0 s.
  if (seconds < 0.9995e-3) return fmt::format("{:.0f} us", seconds * 1e6);
  if (seconds < 0.9995) return fmt::format("{:.0f} ms", seconds * 1e3);
  if (seconds < 59.95 || !std::isfinite(seconds)) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  if (whole < 3600) return fmt::format("{}m{:02d}s", whole / 60, whole % 60);
  return fmt::format("{}h{:02d}m", whole / 3600, whole % 3600 / 60);
}

std::string nearest_name(std::string_view word, const std::vector<std::string>& known) {
  constexpr size_t kLeastBeginning = 4;  // characters
  std::string best;
  size_t best_distance = std::max<size_t>(2, word.size() / 3) + 1;
  const std::string lower_word = lower_case(word);
  for (const std::string& name : known) {
    const std::string lower_name = lower_case(name);
    std::vector<size_t> row(name.size() + 1);
    for (size_t j = 0; j <= name.size(); ++j) row[j] = j;
    for (size_t i = 1; i <= word.size(); ++i) {
      size_t diagonal = row[0];
      row[0] = i;
      for (size_t j = 1; j <= name.size(); ++j) {
        const size_t above = row[j];
        row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (lower_word[i - 1] == lower_name[j - 1] ? 0 : 1)});
        diagonal = above;
      }
    }
    const bool begins = word.size() >= kLeastBeginning && lower_name.starts_with(lower_word);
    const size_t distance = begins ? std::min<size_t>(row[name.size()], 1) : row[name.size()];
    if (distance < best_distance) {
      best_distance = distance;
      best = name;
    }
  }
  return best;
}

std::string choices_hint(std::string_view word, const std::vector<std::string>& known) {
  const std::string near = nearest_name(word, known);
  return fmt::format("{}one of {}", near.empty() ? "" : near + "? or ", fmt::join(known, ", "));
}

}  // namespace amdahl
