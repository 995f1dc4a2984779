#include "comm/collective_data.h"

#include <algorithm>
#include <cstring>

namespace amdahl {
namespace {

// SplitMix64 (Steele, Lea and Flood 2014).
uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// bf16 represents integers up to 2^8 exactly, f16 up to 2^11.
constexpr int64_t kExactWhole = 256;
constexpr int64_t kMostOfByte = 255;
constexpr int kMostDoublings = 7;  // 2^7 is exact in every type, including u8

uint16_t upper_bits(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return static_cast<uint16_t>(bits >> 16);
}

// For integers of magnitude up to 2^11: computes exponent and fraction exactly.
uint16_t half_bits(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  if (value == 0) return sign;
  const auto exponent = static_cast<int>((bits >> 23) & 0xffu) - 127 + 15;
  return static_cast<uint16_t>(sign | (exponent << 10) | ((bits >> 13) & 0x3ffu));
}

template <class T>
void put(void* host, size_t at, T value) {
  std::memcpy(static_cast<char*>(host) + at * sizeof(T), &value, sizeof(T));
}

void store(DType type, void* host, size_t at, int64_t value) {
  switch (type) {
    case DType::f32:
      return put(host, at, static_cast<float>(value));
    case DType::f64:
      return put(host, at, static_cast<double>(value));
    case DType::f16:
      return put(host, at, half_bits(static_cast<float>(value)));
    case DType::bf16:
      return put(host, at, upper_bits(static_cast<float>(value)));
    case DType::i32:
      return put(host, at, static_cast<int32_t>(value));
    case DType::i64:
      return put(host, at, value);
    case DType::u8:
      return put(host, at, static_cast<uint8_t>(value));
    case DType::u32:
      return put(host, at, static_cast<uint32_t>(value));
  }
}

}  // namespace

int64_t CollectiveData::value(int rank, size_t index) const {
  const uint64_t bits = mix(mix(seed + static_cast<uint64_t>(rank)) + index);
  const auto below = [&](int64_t limit) { return static_cast<int64_t>(bits % static_cast<uint64_t>(limit)); };
  // Of more ranks than that, which `most` contribute to an element changes with it.
  const auto contributes = [&](int64_t most) {
    return (static_cast<uint64_t>(rank) + index) % static_cast<uint64_t>(world_size) < static_cast<uint64_t>(most);
  };
  switch (op) {
    case ReduceOp::sum:
      return below(std::clamp<int64_t>(kExactWhole / world_size, 2, 16));
    case ReduceOp::prod:  // powers of two, from few ranks per element
      return contributes(kMostDoublings) ? 1 + below(2) : 1;
    case ReduceOp::avg: {  // multiples of the number of ranks, so that the average is an integer
      const int64_t fit = std::max<int64_t>(kMostOfByte / world_size, 1);  // so many such values add up to one byte
      return contributes(fit) ? world_size * below(std::clamp<int64_t>(fit / world_size + 1, 2, 8)) : 0;
    }
    case ReduceOp::min:
    case ReduceOp::max:
      return type == DType::u8 || type == DType::u32 ? below(200) : below(200) - 100;
  }
  return 0;
}

int64_t CollectiveData::reduced(size_t index) const {
  int64_t result = value(0, index);
  for (int rank = 1; rank < world_size; ++rank) {
    const int64_t next = value(rank, index);
    switch (op) {
      case ReduceOp::sum:
      case ReduceOp::avg:
        result += next;
        break;
      case ReduceOp::prod:
        result *= next;
        break;
      case ReduceOp::min:
        result = std::min(result, next);
        break;
      case ReduceOp::max:
        result = std::max(result, next);
        break;
    }
  }
  return op == ReduceOp::avg ? result / world_size : result;
}

void CollectiveData::fill(void* host, int rank, size_t first, size_t count) const {
  for (size_t i = 0; i < count; ++i) store(type, host, i, value(rank, first + i));
}

size_t CollectiveData::count_wrong(const void* host, const CollectiveRow& row, const CollectiveWorld& world,
                                   size_t count, size_t* first_wrong) const {
  const size_t bytes = size_of(type);
  size_t wrong = 0;
  for (size_t i = 0; i < count; ++i) {
    const ElementSource from = row.source_of(world, i);
    unsigned char expected[8] = {};
    store(type, expected, 0, from.source == ElementSource::kAll ? reduced(from.index) : value(from.source, from.index));
    if (std::memcmp(expected, static_cast<const char*>(host) + i * bytes, bytes) == 0) continue;
    if (wrong++ == 0 && first_wrong) *first_wrong = i;
  }
  return wrong;
}

}  // namespace amdahl
