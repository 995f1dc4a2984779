// Numbers as text: whatever is printed is close enough to the number to be read for it.
#include "base/number_text.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "amdahl/error.h"

namespace amdahl {
namespace {

double number_in(std::string text) {
  std::erase(text, ',');
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  EXPECT_EQ(*end, '\0') << text;
  return value;
}

TEST(FormatNumber, HasTheSignificantDigitsAskedFor) {
  std::mt19937_64 random(21);
  std::uniform_real_distribution<double> exponent(-12, 18);
  for (int trial = 0; trial < 4000; ++trial) {
    const double value = std::pow(10, exponent(random)) * (random() % 2 == 0 ? 1 : -1);
    for (const int significant : {2, 3, 4, 6})
      EXPECT_NEAR(number_in(format_number(value, significant)), value,
                  std::abs(value) * 0.5001 * std::pow(10, 1 - significant))
          << fmt::format("{:.17g} with {} digits", value, significant);
  }
}

TEST(FormatNumber, IsNeverLongerThanANumberOfThatSizeNeeds) {
  std::mt19937_64 random(22);
  std::uniform_real_distribution<double> exponent(-4, 14);
  for (int trial = 0; trial < 2000; ++trial) {
    const std::string text = format_number(std::pow(10, exponent(random)));
    EXPECT_LE(text.size(), 19u) << text;
    EXPECT_EQ(text.find('e'), std::string::npos) << text;
  }
  EXPECT_EQ(format_number(0), "0");
  EXPECT_EQ(format_number(-0.0), "0");
  EXPECT_EQ(format_number(99.96), "100");
  EXPECT_EQ(format_number(1234.4), "1,234");
}

TEST(FormatNumber, OfWhatIsNoNumberIsAWord) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(format_number(nan), "nan");
  EXPECT_EQ(format_number(infinity), "inf");
  EXPECT_EQ(format_number(-infinity), "-inf");
  EXPECT_EQ(short_number(nan), "nan");
  EXPECT_EQ(format_plus_minus(nan, std::nullopt), "nan");
}

TEST(ShortNumber, IsReadAsTheNumber) {
  std::mt19937_64 random(23);
  std::uniform_real_distribution<double> exponent(-2, 14.9);
  for (int trial = 0; trial < 3000; ++trial) {
    const double value = std::pow(10, exponent(random));
    std::string text = short_number(value);
    double factor = 1;
    for (const auto& [suffix, size] : {std::pair('k', 1e3), {'M', 1e6}, {'G', 1e9}, {'T', 1e12}})
      if (text.back() == suffix) factor = size;
    if (factor > 1) text.pop_back();
    EXPECT_NEAR(number_in(text) * factor, value, value * 0.00501) << text;
    EXPECT_LE(text.size(), 6u) << text;
  }
}

TEST(BinaryBytes, SaysExactlyTheBytes) {
  std::mt19937_64 random(24);
  for (int trial = 0; trial < 3000; ++trial) {
    const auto bytes = static_cast<int64_t>((random() % 5000) << (random() % 40));
    const std::string text = binary_bytes(bytes);
    const size_t space = text.rfind(' ');
    const std::string unit = text.substr(space + 1);
    const int64_t factor = unit == "GiB" ? 1 << 30 : unit == "MiB" ? 1 << 20 : unit == "KiB" ? 1 << 10 : 1;
    EXPECT_EQ(parse_whole(text.substr(0, space), Unit::count, "bytes") * factor, bytes) << text;
    EXPECT_EQ(factor == 1, bytes < 1024 || bytes % 1024 != 0) << text;
  }
}

TEST(NumberText, IntervalsAndProbabilities) {
  EXPECT_EQ(format_plus_minus(1234, Interval{1189, 1279}, Charset::ascii), "1,234 +- 45.0");
  EXPECT_EQ(format_speedup(1.784, Interval{1.751, 1.809}), "1.78x [1.75, 1.81]");
  EXPECT_EQ(format_speedup(1.784, std::nullopt), "1.78x [n/a]");
  EXPECT_EQ(format_percent(0.415), "42 %");
  EXPECT_EQ(format_p(9.9e-5), "p < 0.0001");
  EXPECT_EQ(format_p(1e-4), "p = 0.0001");
  EXPECT_EQ(format_p(1), "p = 1");
}

TEST(NumberText, VirtualDevicesAreNeverGpus) {
  for (const char* kind : {"cpu-virtual", "", "other"}) {
    const DeviceWords words = device_text(kind);
    for (const std::string_view word : {words.one, words.many, words.single, words.multi})
      EXPECT_EQ(word.find("GPU"), std::string_view::npos) << word;
  }
  EXPECT_EQ(device_text("cuda").many, "GPUs");
  EXPECT_EQ(format_axis("global_batch"), "global batch");
  EXPECT_EQ(format_axis("num_parameters"), "parameters");
  EXPECT_EQ(format_axis("num_"), "");
}

}  // namespace
}  // namespace amdahl
