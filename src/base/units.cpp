#include "amdahl/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>

namespace amdahl {
namespace {

struct Suffix {
  std::string_view text;  // lower case; input may have any case
  double factor;
};

[[noreturn]] void refuse(std::string_view text, std::string_view what, std::string_view example) {
  throw Error(Cause::usage, fmt::format("{}: '{}' is not a valid value", what, text),
              fmt::format("a value like {}", example));
}

template <size_t N>
int64_t parse_scaled(std::string_view text, std::string_view what, const Suffix (&suffixes)[N],
                     std::string_view example) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || !(number >= 0)) refuse(text, what, example);
  std::string rest(end, static_cast<size_t>(text.data() + text.size() - end));
  for (char& c : rest) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const Suffix& suffix : suffixes) {
    if (suffix.text != rest) continue;
    const double scaled = std::round(number * suffix.factor);
    if (scaled > 9e18) refuse(text, what, example);
    return static_cast<int64_t>(scaled);
  }
  refuse(text, what, example);
}

int64_t parse_integer(std::string_view text, std::string_view what) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) refuse(text, what, "8 or 1,2,4 or 1..8x2");
  return value;
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

int64_t parse_size_bytes(std::string_view text, std::string_view what) {
  static constexpr Suffix kSuffixes[] = {{"", 1},         {"b", 1},       {"k", 0x1p10},   {"m", 0x1p20},
                                         {"g", 0x1p30},   {"t", 0x1p40},  {"kb", 0x1p10},  {"mb", 0x1p20},
                                         {"gb", 0x1p30},  {"tb", 0x1p40}, {"kib", 0x1p10}, {"mib", 0x1p20},
                                         {"gib", 0x1p30}, {"tib", 0x1p40}};
  return parse_scaled(text, what, kSuffixes, "8, 32M or 1GiB");
}

int64_t parse_count(std::string_view text, std::string_view what) {
  static constexpr Suffix kSuffixes[] = {{"", 1}, {"k", 1e3}, {"m", 1e6}, {"b", 1e9}, {"g", 1e9}};
  std::string digits(text);
  std::erase(digits, ',');
  return parse_scaled(digits, what, kSuffixes, "54403, 250k or 6.9M");
}

std::vector<int64_t> parse_count_list(std::string_view text, std::string_view what, int64_t minimum) {
  std::vector<int64_t> values;
  size_t begin = 0;
  while (begin <= text.size()) {
    const size_t comma = std::min(text.find(',', begin), text.size());
    const std::string_view item = text.substr(begin, comma - begin);
    const size_t dots = item.find("..");
    if (dots == std::string_view::npos) {
      values.push_back(parse_integer(item, what));
    } else {
      const std::string_view tail = item.substr(dots + 2);
      const size_t times = tail.find('x');
      const int64_t first = parse_integer(item.substr(0, dots), what);
      const int64_t last = parse_integer(tail.substr(0, times), what);
      const int64_t factor = times == std::string_view::npos ? 0 : parse_integer(tail.substr(times + 1), what);
      const bool scaled = times != std::string_view::npos;
      if (last < first || (scaled && (factor < 2 || first < 1)) || !spans_at_most(first, last, 1'000'000))
        refuse(item, what, "1..4 or 1..8x2");
      const auto is_last = [&](int64_t v) { return scaled ? v > last / factor : v == last; };
      for (int64_t v = first;; v = scaled ? v * factor : v + 1) {
        values.push_back(v);
        if (is_last(v)) break;
      }
    }
    begin = comma + 1;
  }
  for (int64_t v : values)
    if (v < minimum)
      throw Error(Cause::usage, fmt::format("{}: {} is too small", what, v),
                  fmt::format("values of at least {}", minimum));
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
  std::string best;
  size_t best_distance = std::max<size_t>(2, word.size() / 3) + 1;
  for (const std::string& name : known) {
    std::vector<size_t> row(name.size() + 1);
    for (size_t j = 0; j <= name.size(); ++j) row[j] = j;
    for (size_t i = 1; i <= word.size(); ++i) {
      size_t diagonal = row[0];
      row[0] = i;
      for (size_t j = 1; j <= name.size(); ++j) {
        const size_t above = row[j];
        row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (word[i - 1] == name[j - 1] ? 0 : 1)});
        diagonal = above;
      }
    }
    if (row[name.size()] < best_distance) {
      best_distance = row[name.size()];
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
