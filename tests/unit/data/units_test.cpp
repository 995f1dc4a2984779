// Sizes, counts and their text forms: random values against independent readers of the same text, and what is refused.
#include "amdahl/error.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "errors.h"

namespace amdahl {
namespace {

constexpr int64_t kLowest = std::numeric_limits<int64_t>::min(), kHighest = std::numeric_limits<int64_t>::max();

void expect_usage_of(const std::function<void()>& call, const std::string& word, const std::string& what) {
  const Error error = error_of(call);
  EXPECT_EQ(error.cause(), Cause::usage) << what << ": " << error.line();
  EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.line();
  EXPECT_FALSE(error.remedy().empty()) << error.line();
}

std::string mixed_case(std::string text, std::mt19937_64& random) {
  for (char& c : text)
    if (random() % 2 == 0) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

TEST(ParseSize, EverySuffixIsItsPowerOfTwoInAnyCase) {
  std::mt19937_64 random(1);
  const std::string letters = "kmgt";
  for (size_t power = 0; power < letters.size(); ++power)
    for (const char* ending : {"", "b", "ib"})
      for (int trial = 0; trial < 20; ++trial) {
        const int64_t number = static_cast<int64_t>(random() % 4000);
        const std::string text = mixed_case(fmt::format("{}{}{}", number, letters[power], ending), random);
        EXPECT_EQ(parse_whole(text, Unit::bytes, "buffer"), number << (10 * (power + 1))) << text;
      }
  EXPECT_EQ(parse_whole("0", Unit::bytes, "buffer"), 0);
  EXPECT_EQ(parse_whole("7b", Unit::bytes, "buffer"), 7);
  EXPECT_EQ(parse_whole("1.5k", Unit::bytes, "buffer"), 1536);
  EXPECT_EQ(parse_whole("0.3M", Unit::bytes, "buffer"), 314'573) << "a part of a byte is rounded";
}

TEST(ParseSize, RefusesWhatIsNoSize) {
  for (const char* text :
       {"",   " ",   "0.3", "k",    "-1",  "-0.5k",    "8 M",    "8M ",  " 8M",   "8MM",   "8kk",       "0x10", "1e",
        "8%", "nan", "NaN", "-nan", "inf", "infinity", "nan(2)", "1e30", "9e18k", "1e999", "16777216t", "١"})
    expect_usage_of([&] { static_cast<void>(parse_whole(text, Unit::bytes, "max-bytes")); }, "max-bytes", text);
}

TEST(ParseCount, IsDecimalAndIgnoresCommas) {
  EXPECT_EQ(parse_whole("6.9M", Unit::count, "n"), 6'900'000);
  EXPECT_EQ(parse_whole("54,403", Unit::count, "n"), 54'403);
  EXPECT_EQ(parse_whole("250K", Unit::count, "n"), 250'000);
  EXPECT_EQ(parse_whole("2b", Unit::count, "n"), 2'000'000'000);
  EXPECT_EQ(parse_whole("2g", Unit::count, "n"), 2'000'000'000);
  for (const char* text : {"", ",", "1kib", "1t", "nan", "nank", "inf", "-3", "9.3e18", "five"})
    expect_usage_of([&] { static_cast<void>(parse_whole(text, Unit::count, "parameters")); }, "parameters", text);
}

TEST(ParseQuantity, EveryUnitHasItsSuffixes) {
  const auto value = [](const char* text, Unit unit) { return parse_quantity(text, unit, "--x"); };
  EXPECT_EQ(value("5m", Unit::seconds), 300);
  EXPECT_EQ(value("1.5h", Unit::seconds), 5400);
  EXPECT_EQ(value("250MS", Unit::seconds), 0.25);
  EXPECT_EQ(value("1%", Unit::fraction), 0.01);
  EXPECT_EQ(value("3%", Unit::percent), 3);
  EXPECT_EQ(value("230GB/s", Unit::rate), 230);
  EXPECT_EQ(value("-1.5", Unit::number), -1.5);
  EXPECT_EQ(value("+5", Unit::seconds), 5);
  for (const auto& [text, unit] : std::vector<std::pair<const char*, Unit>>{{"5k", Unit::seconds},
                                                                            {"1%", Unit::number},
                                                                            {"-1", Unit::seconds},
                                                                            {"1e999", Unit::number},
                                                                            {"010", Unit::count}})
    expect_usage_of([&] { static_cast<void>(parse_quantity(text, unit, "--x")); }, "--x", text);
}

TEST(ParseQuantity, ReadsNumbersBetweenSeparators) {
  EXPECT_EQ(parse_quantities("50%,1", Unit::fraction, "--x"), (std::vector<double>{0.5, 1}));
  EXPECT_EQ(parse_like("30x512", "0.1kx64", "--x"), (std::vector<int64_t>{100, 64}));
  EXPECT_EQ(parse_like("128", "1,024", "--x"), (std::vector<int64_t>{1024}));
  EXPECT_EQ(parse_like("10:13", "0:3", "--x", 0), (std::vector<int64_t>{0, 3}));
  const auto remedy_of = [](const std::function<void()>& parse) {
    try {
      parse();
    } catch (const Error& error) {
      return error.remedy();
    }
    return std::string("accepted");
  };
  const auto like = [&](const char* example, const char* text) {
    return remedy_of([&] { parse_like(example, text, "--x part="); });
  };
  EXPECT_THAT(like("30x512", "30x64q"), testing::HasSubstr("--x part=30x64, or"));
  EXPECT_THAT(like("30x512", "0x64"), testing::HasSubstr("--x part=8x64, or"));
  EXPECT_THAT(like("30x512", "30"), testing::HasSubstr("--x part=30x512"));
  EXPECT_THAT(like("10:13", "1:2:3"), testing::HasSubstr("--x part=10:13"));
  EXPECT_THAT(remedy_of([] { parse_quantities("1,5x,a", Unit::number, "--x"); }), testing::HasSubstr("--x 1,5,1, or"));
}

TEST(ParseQuantity, ProposesAValueThatItTakes) {
  std::mt19937_64 random(5);
  constexpr Unit kUnits[] = {Unit::number,   Unit::count,   Unit::bytes, Unit::seconds,
                             Unit::fraction, Unit::percent, Unit::rate};
  const std::string alphabet = "0123456789.,-+ xkKmMgGsh%/b";
  int refused = 0;
  for (int trial = 0; trial < 20'000; ++trial) {
    std::string text;
    for (size_t i = random() % 8; i > 0; --i) text += alphabet[random() % alphabet.size()];
    const Unit unit = kUnits[random() % std::size(kUnits)];
    try {
      parse_quantity(text, unit, "--x");
    } catch (const Error& error) {
      ++refused;
      const std::string proposed = error.remedy().substr(4, error.remedy().find(", or ") - 4);
      EXPECT_NO_THROW(parse_quantity(proposed, unit, "--x")) << text << ": " << error.line();
    }
  }
  EXPECT_GT(refused, 5'000);
}

TEST(ParseCount, ReadsWhatWithThousandsWrites) {
  std::mt19937_64 random(2);
  for (int trial = 0; trial < 2000; ++trial) {
    const auto value = static_cast<int64_t>(random() >> (11 + random() % 52));  // exact as a double
    EXPECT_EQ(parse_whole(with_thousands(value), Unit::count, "n"), value);
  }
}

// The list by a loop, for numbers far from the ends.
std::vector<int64_t> range_by_hand(int64_t first, int64_t last, int64_t factor) {
  std::vector<int64_t> values;
  for (int64_t v = first; v <= last; v = factor > 0 ? v * factor : v + 1) values.push_back(v);
  return values;
}

TEST(ParseCountList, RangesAreThoseOfALoop) {
  std::mt19937_64 random(3);
  for (int trial = 0; trial < 500; ++trial) {
    const auto first = static_cast<int64_t>(1 + random() % 50);
    const auto last = static_cast<int64_t>(first + static_cast<int64_t>(random() % 3000));
    const auto factor = static_cast<int64_t>(2 + random() % 9);
    EXPECT_EQ(parse_count_list(fmt::format("{}..{}", first, last), "devices"), range_by_hand(first, last, 0));
    EXPECT_EQ(parse_count_list(fmt::format("{}..{}x{}", first, last, factor), "devices"),
              range_by_hand(first, last, factor));
  }
  EXPECT_EQ(parse_count_list("4,1,1..3,8..8", "devices"), (std::vector<int64_t>{4, 1, 1, 2, 3, 8}));
  EXPECT_EQ(parse_count_list("-2..1", "offset", -2), (std::vector<int64_t>{-2, -1, 0, 1}));
}

TEST(ParseCountList, EndsAtTheEndsOfTheNumbers) {
  const int64_t top = kHighest;
  EXPECT_EQ(parse_count_list(fmt::format("{}..{}", top - 1, top), "n"), (std::vector<int64_t>{top - 1, top}));
  EXPECT_EQ(parse_count_list(fmt::format("2..8x{}", top), "n"), (std::vector<int64_t>{2}));
  EXPECT_EQ(parse_count_list(fmt::format("1..8x{}", top), "n"), (std::vector<int64_t>{1}));
  for (const std::string& text : {fmt::format("{}..{}", kLowest, kHighest), fmt::format("-1..{}", kHighest),
                                  fmt::format("{}..{}", kLowest, kLowest + 5'000'000)})
    expect_usage_of([&] { static_cast<void>(parse_count_list(text, "n", kLowest)); }, "n", text);
}

TEST(ParseCountList, RefusesWhatIsNoList) {
  for (const char* text : {"",          ",",        "1,",     ",1",      "1,,2",   "1..",   "..4",
                           "4..1",      "1..8x1",   "1..8x0", "1..8x-2", "0..8x2", "1...4", "1.5",
                           "1..4..8",   "1..8x2x2", "one",    "1 2",     "0",      "-1",    "99999999999999999999",
                           "1..2000000"})
    expect_usage_of([&] { static_cast<void>(parse_count_list(text, "devices")); }, "devices", text);
}

TEST(WithThousands, KeepsTheDigitsAndGroupsThem) {
  std::mt19937_64 random(4);
  std::vector<int64_t> values{0, 1, -1, 999, 1000, -999, -1000, 999'999, 1'000'000, kHighest, kLowest};
  for (int trial = 0; trial < 3000; ++trial)
    values.push_back(static_cast<int64_t>(random()) >> (random() % 63));  // all sizes and signs
  for (const int64_t value : values) {
    const std::string text = with_thousands(value);
    std::string digits = text;
    std::erase(digits, ',');
    EXPECT_EQ(digits, std::to_string(value));
    const size_t start = value < 0 ? 1 : 0;
    for (size_t i = start; i < text.size(); ++i)
      EXPECT_EQ(text[i] == ',', (text.size() - i) % 4 == 0 && i > start) << text;
  }
}

// What a text of number and unit says, in the base unit.
double read_back(const std::string& text, const std::vector<std::pair<std::string, double>>& units) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  for (const auto& [unit, factor] : units)
    if (std::string(end) == " " + unit) return number * factor;
  ADD_FAILURE() << text;
  return 0;
}

TEST(FormatBytes, SaysTheNumberToWithinItsLastDigit) {
  const std::vector<std::pair<std::string, double>> units{
      {"B", 1}, {"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}};
  std::mt19937_64 random(5);
  std::uniform_real_distribution<double> exponent(0, 14.5);
  for (int trial = 0; trial < 3000; ++trial) {
    const double bytes = std::floor(std::pow(10, exponent(random)));
    EXPECT_NEAR(read_back(format_bytes(bytes), units), bytes, std::max(0.5, bytes * 0.051)) << bytes;
    EXPECT_EQ(format_bytes(-bytes), "-" + format_bytes(bytes));
  }
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(999), "999 B");
  EXPECT_EQ(format_bytes(1000), "1.0 kB");
}

// Seconds in "1h05m", "1m20s" or a number with its unit.
double seconds_in(const std::string& text) {
  int a = 0, b = 0;
  if (std::sscanf(text.c_str(), "%dh%dm", &a, &b) == 2) return a * 3600.0 + b * 60.0;
  if (std::sscanf(text.c_str(), "%dm%ds", &a, &b) == 2) return a * 60.0 + b;
  return read_back(text, {{"us", 1e-6}, {"ms", 1e-3}, {"s", 1}});
}

TEST(FormatDuration, SaysTheTimeToWithinItsLastPart) {
  std::mt19937_64 random(6);
  std::uniform_real_distribution<double> exponent(-6, 7);
  for (int trial = 0; trial < 3000; ++trial) {
    const double seconds = std::pow(10, exponent(random));
    const double unit = seconds < 1e-3 ? 1e-6 : seconds < 1 ? 1e-3 : seconds < 60 ? 0.1 : seconds < 3600 ? 1 : 60;
    EXPECT_NEAR(seconds_in(format_duration(seconds)), seconds, unit * 1.001) << format_duration(seconds);
  }
}

TEST(FormatDuration, CarriesInsteadOfSixtySeconds) {
  for (const double seconds : {59.94, 59.96, 59.999, 60.0, 119.6, 3599.4, 3599.6, 7199.9}) {
    const std::string text = format_duration(seconds);
    EXPECT_EQ(text.find("60"), std::string::npos) << seconds << " is " << text;
    EXPECT_NEAR(seconds_in(text), seconds, 60);
  }
  EXPECT_EQ(format_duration(0.9999), "1.0 s");
  EXPECT_EQ(format_duration(0.9996e-3), "1 ms");
}

TEST(FormatDuration, OfNoTimeIsText) {
  EXPECT_EQ(format_duration(std::numeric_limits<double>::quiet_NaN()), "nan s");
  EXPECT_EQ(format_duration(std::numeric_limits<double>::infinity()), "inf s");
  EXPECT_EQ(format_duration(0), "0 us");
}

size_t distance_by_recursion(std::string_view a, std::string_view b) {
  if (a.empty() || b.empty()) return std::max(a.size(), b.size());
  const std::string_view a1 = a.substr(1), b1 = b.substr(1);
  if (a[0] == b[0]) return distance_by_recursion(a1, b1);
  return 1 + std::min({distance_by_recursion(a1, b), distance_by_recursion(a, b1), distance_by_recursion(a1, b1)});
}

TEST(NearestName, IsTheOneOfTheSmallestEditDistance) {
  std::mt19937_64 random(7);
  const auto word = [&] {
    std::string text(1 + random() % 5, ' ');
    for (char& c : text) c = static_cast<char>('a' + random() % 3);
    return text;
  };
  for (int trial = 0; trial < 300; ++trial) {
    const std::string asked = word();
    std::vector<std::string> known;
    for (int i = 0; i < 4; ++i) known.push_back(word());
    size_t least = std::string::npos;
    for (const std::string& name : known) least = std::min(least, distance_by_recursion(asked, name));
    const std::string found = nearest_name(asked, known);
    if (least > std::max<size_t>(2, asked.size() / 3)) {
      EXPECT_EQ(found, "");
    } else {
      EXPECT_EQ(distance_by_recursion(asked, found), least) << asked << " -> " << found;
    }
  }
  EXPECT_EQ(nearest_name("anything", {}), "");
  EXPECT_EQ(nearest_name("--batch", {"--math", "--batch-size"}), "--batch-size");
  EXPECT_EQ(choices_hint("medum", {"medium", "large"}), "medium? or one of medium, large");
  EXPECT_EQ(choices_hint("q", {"medium", "large"}), "one of medium, large");
}

}  // namespace
}  // namespace amdahl
