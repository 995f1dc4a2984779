// Digests, values of records, small floats and random numbers: known answers and exhaustive checks.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <set>

#include "base/digest.h"
#include "base/philox.h"
#include "base/record_values.h"
#include "base/small_floats.h"

namespace amdahl {
namespace {

// The test vectors of the authors of FNV and of xxHash.
TEST(Fnv1a, HasTheKnownAnswers) {
  const auto of = [](std::string_view text) {
    Fnv1a digest;
    for (const char c : text) digest.add(static_cast<unsigned char>(c));
    return digest;
  };
  EXPECT_EQ(of("").hash(), 0xcbf29ce484222325u);
  EXPECT_EQ(of("a").hash(), 0xaf63dc4c8601ec8cu);
  EXPECT_EQ(of("foobar").hash(), 0x85944171f73967e8u);
  EXPECT_EQ(of("foobar").text(), "85944171f73967e8");
}

TEST(Digest, HasTheKnownAnswerOfNothingAndChangesWithEveryBit) {
  EXPECT_EQ(digest_of(""), 0x2d06800538d394c2u);
  EXPECT_EQ(digest_text("").size(), 16u);
  std::string text = "a line of records, long enough to take another branch of the hash: 0123456789012345678901234567";
  std::set<uint64_t> seen{digest_of(text)};
  for (size_t i = 0; i < text.size(); ++i)
    for (int bit = 0; bit < 8; ++bit) {
      text[i] = static_cast<char>(text[i] ^ (1 << bit));
      EXPECT_TRUE(seen.insert(digest_of(text)).second) << i << "." << bit;
      text[i] = static_cast<char>(text[i] ^ (1 << bit));
    }
}

TEST(RecordValues, AnAxisOfAnotherTypeIsNotThere) {
  Record record;
  record.axes = {{"devices", int64_t{4}}, {"model", std::string("medium")}, {"overlap", true}};
  EXPECT_EQ(axis<int64_t>(record, "devices", -1), 4);
  EXPECT_EQ(axis<int64_t>(record, "model", -1), -1);
  EXPECT_EQ(axis<bool>(record, "devices", false), false);
  EXPECT_EQ(axis<bool>(record, "overlap", false), true);
  EXPECT_EQ(text_axis(record, "model"), "medium");
  EXPECT_EQ(text_axis(record, "devices"), "");
  EXPECT_EQ(text_axis(record, "none"), "");
}

TEST(RecordValues, SamplesAreTheFirstSeriesOfTheNameThatHasSome) {
  Record record;
  record.series = {{"time", "us", {}}, {"time", "us", {1, 2}}, {"time", "us", {3}}, {"rate", "1", {}}};
  EXPECT_EQ(samples_of(record, "time"), (std::vector<double>{1, 2}));
  EXPECT_EQ(record.value("time"), 1) << "as Record::value says";
  EXPECT_TRUE(samples_of(record, "rate").empty());
  EXPECT_TRUE(samples_of(record, "none").empty());
  EXPECT_TRUE(samples_of(record, "").empty());
}

// kat_vectors of Random123, philox4x32 with 10 rounds.
TEST(Philox, HasTheKnownAnswersOfRandom123) {
  const auto expect = [](const Philox4& drawn, std::array<uint32_t, 4> known) {
    for (size_t i = 0; i < 4; ++i) EXPECT_EQ(drawn.v[i], known[i]) << i;
  };
  expect(philox(0, 0, 0, 0, 0), {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  expect(philox(~uint64_t{0}, ~0u, ~0u, ~0u, ~0u), {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  expect(philox(0x299f31d0a4093822u, 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344),
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST(Philox, EveryBitOfKeyAndCounterMatters) {
  const Philox4 base = philox(0, 0, 0, 0, 0);
  for (int bit = 0; bit < 64 + 4 * 32; ++bit) {
    uint64_t key = 0;
    uint32_t c[4] = {};
    bit < 64 ? key = uint64_t{1} << bit : c[(bit - 64) / 32] = 1u << (bit - 64) % 32;
    const Philox4 other = philox(key, c[0], c[1], c[2], c[3]);
    int changed = 0;
    for (int i = 0; i < 4; ++i) changed += std::popcount(base.v[i] ^ other.v[i]);
    EXPECT_GT(changed, 32) << bit;  // of 128, half on average
    EXPECT_LT(changed, 96) << bit;
  }
}

TEST(Philox, UniformNumbersAreInTheHalfOpenIntervalAndEven) {
  EXPECT_GT(philox_uniform(0), 0.0f);
  EXPECT_EQ(philox_uniform(~0u), 1.0f);
  constexpr int kBins = 16, kDraws = 160'000;
  int count[kBins] = {};
  for (uint32_t i = 0; i < kDraws / 4; ++i)
    for (const uint32_t bits : philox(3, i, 0, 0, 0).v)
      ++count[std::min(kBins - 1, static_cast<int>(philox_uniform(bits) * kBins))];
  double chi_squared = 0;
  for (const int n : count) chi_squared += std::pow(n - kDraws / kBins, 2) / (kDraws / kBins);
  EXPECT_LT(chi_squared, 37.7) << "the 0.999 quantile with 15 degrees of freedom";
}

TEST(Philox, DropoutKeepsTheFractionAskedFor) {
  EXPECT_EQ(dropout_keep_threshold(0), ~0u);
  EXPECT_EQ(dropout_keep_threshold(0.5), 1u << 31);
  for (const double p : {0.01, 0.2, 0.3, 0.9, 0.999}) {
    int64_t kept = 0;
    constexpr int kDraws = 100'000;
    for (uint32_t i = 0; i < kDraws / 4; ++i)
      for (const uint32_t bits : dropout_draw(9, i, 5, 7, 1).v) kept += bits < dropout_keep_threshold(p);
    EXPECT_NEAR(static_cast<double>(kept) / kDraws, 1 - p, 4 * std::sqrt(p * (1 - p) / kDraws)) << p;
  }
}

// Value of a small float by its definition: sign, exponent and fraction.
double by_definition(uint32_t bits, int exponent_bits, int fraction_bits) {
  const uint32_t fraction = bits & ((1u << fraction_bits) - 1);
  const int exponent = static_cast<int>(bits >> fraction_bits & ((1u << exponent_bits) - 1));
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const double sign = bits >> (exponent_bits + fraction_bits) ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1)
    return fraction ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
  const double scaled = std::ldexp(fraction, -fraction_bits);
  return sign * (exponent == 0 ? std::ldexp(scaled, 1 - bias) : std::ldexp(1 + scaled, exponent - bias));
}

bool same_value(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b));
}

TEST(SmallFloats, AllPatternsHaveTheirValueAndComeBack) {
  for (uint32_t bits = 0; bits < 1u << 16; ++bits) {
    const Half half{static_cast<uint16_t>(bits)};
    const Bfloat bfloat{static_cast<uint16_t>(bits)};
    ASSERT_TRUE(same_value(to_float(half), by_definition(bits, 5, 10))) << bits;
    ASSERT_TRUE(same_value(to_float(bfloat), by_definition(bits, 8, 7))) << bits;
    if (std::isnan(to_float(half))) {
      ASSERT_TRUE(std::isnan(to_float(to_half(to_float(half))))) << bits;
    } else {
      ASSERT_EQ(to_half(to_float(half)).bits, bits);
    }
    if (std::isnan(to_float(bfloat))) continue;
    ASSERT_EQ(to_bfloat(to_float(bfloat)).bits, bits);
  }
}

// The nearest of the two neighbours; of two equally near ones the even one.
template <class Small>
void expect_nearest(float value, Small (*convert)(float)) {
  const Small rounded = convert(value);
  const double own = to_float(rounded);
  if (std::isinf(own)) return;
  for (const int step : {-1, 1}) {
    const Small other{static_cast<uint16_t>(rounded.bits + step)};
    if ((other.bits ^ rounded.bits) & 0x8000u) continue;  // across zero
    const double theirs = to_float(other), mine = std::abs(own - value), distance = std::abs(theirs - value);
    if (!std::isfinite(theirs)) continue;
    ASSERT_TRUE(mine < distance || (mine == distance && rounded.bits % 2 == 0)) << value;
  }
}

TEST(SmallFloats, RoundToTheNearestTiesToEven) {
  std::mt19937_64 random(31);
  for (int trial = 0; trial < 200'000; ++trial) {
    float value = std::bit_cast<float>(static_cast<uint32_t>(random()));
    if (trial % 4 == 0)  // halfway between two halves
      value = (to_float(Half{static_cast<uint16_t>(random() % 0x7bff)}) +
               to_float(Half{static_cast<uint16_t>(random() % 0x7bff)})) /
              2;
    if (!std::isfinite(value)) continue;
    if (std::abs(value) < 65520) expect_nearest<Half>(value, to_half);
    expect_nearest<Bfloat>(value, to_bfloat);
  }
  EXPECT_TRUE(std::isinf(to_float(to_half(65520.0f)))) << "the tie above the largest half";
  EXPECT_EQ(to_float(to_half(65519.99f)), 65504.0f);
  EXPECT_EQ(to_half(-0.0f).bits, 0x8000u);
  EXPECT_EQ(to_half(0x1p-25f).bits, 0u) << "the tie between zero and the smallest";
  EXPECT_EQ(to_half(0x1.000002p-25f).bits, 1u);
}

}  // namespace
}  // namespace amdahl
