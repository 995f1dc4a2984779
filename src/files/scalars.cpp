#include "files/scalars.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace amdahl {
namespace {

static_assert(std::endian::native == std::endian::little, "files are read and written as little-endian memory");

template <class T, bool big_endian>
T load(const char* at) {
  std::array<char, sizeof(T)> bytes;
  std::memcpy(bytes.data(), at, sizeof(T));
  if (big_endian) std::reverse(bytes.begin(), bytes.end());
  return std::bit_cast<T>(bytes);
}

template <class T, bool big_endian>
double read_as_double(const char* at) {
  return static_cast<double>(load<T, big_endian>(at));
}

// IEEE binary16: 1 sign bit, 5 of the exponent, 10 of the fraction.
template <bool big_endian>
double read_half(const char* at) {
  const uint16_t bits = load<uint16_t, big_endian>(at);
  const int exponent = (bits >> 10) & 31, fraction = bits & 1023;
  double value = 0;
  if (exponent == 31)
    value = fraction == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  else
    value = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  return (bits >> 15) != 0 ? -value : value;
}

struct Row {
  ScalarKind kind;
  size_t bytes;
  ReadScalar little, big;
};

template <class T>
constexpr Row row(ScalarKind kind) {
  return {kind, sizeof(T), read_as_double<T, false>, read_as_double<T, true>};
}

constexpr Row kRows[] = {
    {ScalarKind::floating, 2, read_half<false>, read_half<true>},
    row<float>(ScalarKind::floating),
    row<double>(ScalarKind::floating),
    row<int8_t>(ScalarKind::whole),
    row<int16_t>(ScalarKind::whole),
    row<int32_t>(ScalarKind::whole),
    row<int64_t>(ScalarKind::whole),
    row<uint8_t>(ScalarKind::natural),
    row<uint16_t>(ScalarKind::natural),
    row<uint32_t>(ScalarKind::natural),
    row<uint64_t>(ScalarKind::natural),
};

}  // namespace

ReadScalar find_scalar(ScalarKind kind, size_t bytes, bool big_endian) {
  for (const Row& row : kRows)
    if (row.kind == kind && row.bytes == bytes) return big_endian ? row.big : row.little;
  return nullptr;
}

bool multiply_sizes(size_t a, size_t b, size_t& product) {
  return !__builtin_mul_overflow(a, b, &product) && product <= static_cast<size_t>(PTRDIFF_MAX);
}

}  // namespace amdahl
