// Text of unknown origin for terminals: whatever the bytes, the result is UTF-8 without control characters.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <optional>
#include <random>

#include "amdahl/error.h"

namespace amdahl {
namespace {

// A reader of UTF-8 by decoding and comparing with the shortest form; nullopt for anything that is not valid.
std::optional<std::vector<uint32_t>> code_points(std::string_view text) {
  std::vector<uint32_t> points;
  for (size_t at = 0; at < text.size();) {
    const auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<unsigned char>(text[at + i])); };
    const size_t length = byte(0) < 0x80           ? 1
                          : (byte(0) >> 5) == 0x06 ? 2
                          : (byte(0) >> 4) == 0x0e ? 3
                          : (byte(0) >> 3) == 0x1e ? 4
                                                   : 0;
    if (length == 0 || at + length > text.size()) return std::nullopt;
    uint32_t point = length == 1 ? byte(0) : byte(0) & (0xffu >> (length + 1));
    for (size_t i = 1; i < length; ++i) {
      if ((byte(i) >> 6) != 2) return std::nullopt;
      point = point << 6 | (byte(i) & 0x3f);
    }
    constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
    if (point < kLeast[length] || point > 0x10ffff || (point >= 0xd800 && point <= 0xdfff)) return std::nullopt;
    points.push_back(point);
    at += length;
  }
  return points;
}

std::string encoded(uint32_t point) {
  const auto tail = [&](int shift) { return static_cast<char>(0x80 | ((point >> shift) & 0x3f)); };
  if (point < 0x80) return {static_cast<char>(point)};
  if (point < 0x800) return {static_cast<char>(0xc0 | (point >> 6)), tail(0)};
  if (point < 0x10000) return {static_cast<char>(0xe0 | (point >> 12)), tail(6), tail(0)};
  return {static_cast<char>(0xf0 | (point >> 18)), tail(12), tail(6), tail(0)};
}

bool is_control(uint32_t point) { return point < 0x20 || (point >= 0x7f && point < 0xa0); }

/// Unicode's default-ignorable characters and line separators, and those that turn the direction of text around.
bool is_invisible(uint32_t point) {
  for (const auto& [first, last] : {std::pair<uint32_t, uint32_t>{0xad, 0xad},
                                    {0x34f, 0x34f},
                                    {0x61c, 0x61c},
                                    {0x115f, 0x1160},
                                    {0x17b4, 0x17b5},
                                    {0x180b, 0x180f},
                                    {0x200b, 0x200f},
                                    {0x2028, 0x202e},
                                    {0x2060, 0x206f},
                                    {0x3164, 0x3164},
                                    {0xfe00, 0xfe0f},
                                    {0xfeff, 0xfeff},
                                    {0xffa0, 0xffa0},
                                    {0xfff0, 0xfffb},
                                    {0x1d173, 0x1d17a},
                                    {0xe0000, 0xe0fff}})
    if (point >= first && point <= last) return true;
  return false;
}

void expect_safe(const std::string& shown, const std::string& of) {
  const auto points = code_points(shown);
  ASSERT_TRUE(points) << fmt::format("{:02x}", fmt::join(std::vector<unsigned char>(of.begin(), of.end()), " "));
  for (const uint32_t point : *points) EXPECT_FALSE(is_control(point)) << point;
}

TEST(Printable, AnyBytesBecomeSafeText) {
  std::mt19937_64 random(11);
  for (int trial = 0; trial < 4000; ++trial) {
    std::string bytes(random() % 24, ' ');
    for (char& c : bytes)  // many lead and continuation bytes
      c = static_cast<char>(random() % 3 == 0 ? random() % 128 : 0x80 | random() % 128);
    expect_safe(printable(bytes), bytes);
    expect_safe(printable(bytes, 1 + random() % 12), bytes);
  }
}

TEST(Printable, EveryPairOfBytesIsSafe) {
  for (int first = 0; first < 256; ++first)
    for (int second = 0; second < 256; ++second) {
      const std::string bytes{static_cast<char>(first), static_cast<char>(second), '\x80', '\x80'};
      expect_safe(printable(bytes), bytes);
    }
}

TEST(Printable, KeepsWhatIsSafe) {
  std::mt19937_64 random(12);
  for (int trial = 0; trial < 2000; ++trial) {
    std::string text;
    for (uint64_t left = random() % 10; left > 0; --left) {
      const auto point = static_cast<uint32_t>(random() >> (43 + random() % 15));
      if (!is_control(point) && !is_invisible(point) && point <= 0x10ffff && (point < 0xd800 || point > 0xdfff))
        text += encoded(point);
    }
    EXPECT_EQ(printable(text), text);
  }
}

TEST(Printable, EscapesByteByByte) {
  EXPECT_EQ(printable("a\nb\x1b[31m\x7f"), "a\\x0ab\\x1b[31m\\x7f");
  EXPECT_EQ(printable("\xc2\x85"), "\\xc2\\x85") << "NEL, a control character of two bytes";
  EXPECT_EQ(printable("\xe0\x80\xaf"), "\\xe0\\x80\\xaf") << "/ in more bytes than it needs";
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80") << "half of a surrogate pair";
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80") << "above U+10FFFF";
  EXPECT_EQ(printable("\xe2\x82"), "\\xe2\\x82") << "cut";
  EXPECT_EQ(printable(std::string_view("\0", 1)), "\\x00");
}

TEST(Printable, EscapesWhatTurnsTextAroundOrHidesIt) {
  for (uint32_t point = 0x80; point < 0x110000; ++point) {
    if (point >= 0xd800 && point <= 0xdfff) continue;
    ASSERT_EQ(printable(encoded(point)) == encoded(point), !is_control(point) && !is_invisible(point)) << point;
  }
  EXPECT_EQ(printable("a\xe2\x80\xae"
                      "b"),
            "a\\xe2\\x80\\xaeb")
      << "U+202E";
}

TEST(Printable, CutsInTheMiddle) {
  const std::string text = "begin" + std::string(1000, '.') + "end";
  const std::string shown = printable(text, 60);
  EXPECT_TRUE(shown.starts_with("begin")) << shown;
  EXPECT_TRUE(shown.ends_with("end")) << shown;
  EXPECT_EQ(shown.size(), 60 + std::string(" ... ").size());
  EXPECT_EQ(printable(text, text.size()), text);
}

}  // namespace
}  // namespace amdahl
