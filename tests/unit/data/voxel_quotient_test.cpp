#include "sensor/ops/voxels/voxel_quotient.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

namespace amdahl {
namespace {

/// Coordinates around each whole number up to `most` whose voxel differs from the division's.
int num_different(float edge, int most) {
  constexpr int kAround = 4, kAroundZero = 1001;  // floats
  const Reciprocal reciprocal = reciprocal_of(edge);
  int different = 0;
  for (int n = -1; n <= most; ++n) {
    auto x = static_cast<float>(n * double{edge});
    const int around = n == 0 ? kAroundZero : kAround;
    for (int i = 0; i < around; ++i) x = std::nextafter(x, -INFINITY);
    for (int i = 0; i <= 2 * around; ++i, x = std::nextafter(x, INFINITY))
      different += std::floor(quotient_by(reciprocal, x)) != std::floor(x / edge);
  }
  return different;
}

float edge_of(uint32_t digits, uint32_t exponent) { return std::bit_cast<float>(exponent << 23 | (digits & 0x7fffff)); }

TEST(VoxelQuotient, EdgesThatAreUsed) {
  for (const float edge : {0.01f, 0.02f, 0.05f, 0.1f, 0.16f, 0.2f, 0.25f, 0.3f, 0.075f, 1.0f, 1.0f / 128, 3.0f}) {
    EXPECT_TRUE(divides_equally(edge, 4096)) << edge;
    EXPECT_EQ(num_different(edge, 4096), 0) << edge;
  }
}

/// Their halves of the smallest float are rounded to 0.
TEST(VoxelQuotient, EvenEdges) {
  for (int edge = 2; edge < 2000; edge += 2) ASSERT_EQ(num_different(static_cast<float>(edge), 100), 0) << edge;
}

/// Random edges, and those that are nearest to where the two could differ.
TEST(VoxelQuotient, FallsWhereTheDivisionDoes) {
  std::mt19937 random(7);
  int num_equal = 0;
  for (int i = 0; i < 4000; ++i) {
    const int most = std::uniform_int_distribution(1, 1 << random() % 13)(random);
    const uint32_t modulus = 1u << (24 - std::bit_width(static_cast<unsigned>(most)) + 1);
    const auto digits = static_cast<uint32_t>(random());
    const uint32_t near = digits / modulus * modulus + static_cast<uint32_t>(random() % 25) - 12;
    const float edge = edge_of(i % 2 == 0 ? digits : near, 120 + static_cast<uint32_t>(random() % 12));
    if (!divides_equally(edge, most)) continue;
    ++num_equal;
    ASSERT_EQ(num_different(edge, most), 0) << std::bit_cast<uint32_t>(edge) << " " << most;
  }
  EXPECT_GT(num_equal, 2500);
}

TEST(VoxelQuotient, TellsEdgesThatAreTooNear) {
  const auto edge_with = [](uint32_t low_digits) { return edge_of(0x2a0000 + low_digits, 127); };
  EXPECT_TRUE(divides_equally(edge_with(0), 256));  // whole multiples cannot be half way
  for (const uint32_t rest : {1u, 8u, 0xfff8u, 0xffffu}) EXPECT_FALSE(divides_equally(edge_with(rest), 256)) << rest;
  for (const uint32_t rest : {9u, 0x8000u, 0xfff7u}) EXPECT_TRUE(divides_equally(edge_with(rest), 256)) << rest;
  EXPECT_TRUE(divides_equally(edge_with(0xffffu), 1));   // modulo 2^23
  EXPECT_FALSE(divides_equally(edge_with(5), 1 << 21));  // modulo 8 everything but 0 is near
}

}  // namespace
}  // namespace amdahl
