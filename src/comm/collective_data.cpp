#include "comm/collective_data.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/run_pieces.h"

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

// Values are made and stored in blocks that stay in the caches, and pieces of blocks by all processors.
constexpr size_t kBlock = 2048, kPiece = 128 * kBlock;

/// Calls `use` with the function that gives element `index` of `rank`'s send buffer.
template <class Use>
void with_value_of(const CollectiveData& data, int rank, const Use& use) {
  const auto world = static_cast<int64_t>(data.world_size);
  const auto bits = [key = mix(data.seed + static_cast<uint64_t>(rank))](size_t index) { return mix(key + index); };
  // Of more ranks than `most`, which ones contribute to an element changes with it.
  const auto contributes = [=](size_t index, int64_t most) {
    return (static_cast<uint64_t>(rank) + index) % static_cast<uint64_t>(world) < static_cast<uint64_t>(most);
  };
  switch (data.op) {
    case ReduceOp::sum: {
      const auto limit = static_cast<uint64_t>(std::clamp<int64_t>(kExactWhole / world, 2, 16));
      if (limit == 16) return use([=](size_t index) { return static_cast<int64_t>(bits(index) % 16); });
      return use([=](size_t index) { return static_cast<int64_t>(bits(index) % limit); });
    }
    case ReduceOp::prod:  // powers of two, from few ranks per element
      return use([=](size_t index) {
        return contributes(index, kMostDoublings) ? 1 + static_cast<int64_t>(bits(index) % 2) : int64_t{1};
      });
    case ReduceOp::avg: {  // multiples of the number of ranks, so that the average is an integer
      const int64_t fit = std::max<int64_t>(kMostOfByte / world, 1);  // so many such values add up to one byte
      const auto limit = static_cast<uint64_t>(std::clamp<int64_t>(fit / world + 1, 2, 8));
      return use([=](size_t index) {
        return contributes(index, fit) ? world * static_cast<int64_t>(bits(index) % limit) : int64_t{0};
      });
    }
    case ReduceOp::min:
    case ReduceOp::max: {
      const int64_t least = data.type == DType::u8 || data.type == DType::u32 ? 0 : -100;
      return use([=](size_t index) { return static_cast<int64_t>(bits(index) % 200) + least; });
    }
  }
}

void make_values(const CollectiveData& data, int rank, size_t first, size_t count, int64_t* values) {
  with_value_of(data, rank, [&](const auto& value_at) {
    for (size_t i = 0; i < count; ++i) values[i] = value_at(first + i);
  });
}

int64_t combined(ReduceOp op, int64_t a, int64_t b) {
  switch (op) {
    case ReduceOp::prod:
      return a * b;
    case ReduceOp::min:
      return std::min(a, b);
    case ReduceOp::max:
      return std::max(a, b);
    default:
      return a + b;
  }
}

/// Of at most kBlock elements.
void make_reduced_values(const CollectiveData& data, size_t first, size_t count, int64_t* values) {
  make_values(data, 0, first, count, values);
  for (int rank = 1; rank < data.world_size; ++rank) {
    int64_t next[kBlock];
    make_values(data, rank, first, count, next);
    for (size_t i = 0; i < count; ++i) values[i] = combined(data.op, values[i], next[i]);
  }
  if (data.op != ReduceOp::avg) return;
  for (size_t i = 0; i < count; ++i) values[i] /= data.world_size;
}

template <class Convert>
void store_as(char* host, const int64_t* values, size_t count, const Convert& convert) {
  for (size_t i = 0; i < count; ++i) {
    const auto value = convert(values[i]);
    std::memcpy(host + i * sizeof(value), &value, sizeof(value));
  }
}

void store(DType type, char* host, const int64_t* values, size_t count) {
  switch (type) {
    case DType::f32:
      return store_as(host, values, count, [](int64_t value) { return static_cast<float>(value); });
    case DType::f64:
      return store_as(host, values, count, [](int64_t value) { return static_cast<double>(value); });
    case DType::f16:
      return store_as(host, values, count, [](int64_t value) { return half_bits(static_cast<float>(value)); });
    case DType::bf16:
      return store_as(host, values, count, [](int64_t value) { return upper_bits(static_cast<float>(value)); });
    case DType::i32:
      return store_as(host, values, count, [](int64_t value) { return static_cast<int32_t>(value); });
    case DType::i64:
      return store_as(host, values, count, [](int64_t value) { return value; });
    case DType::u8:
      return store_as(host, values, count, [](int64_t value) { return static_cast<uint8_t>(value); });
    case DType::u32:
      return store_as(host, values, count, [](int64_t value) { return static_cast<uint32_t>(value); });
  }
}

/// Calls use(piece, begin, end) for the pieces of [0, count), by all processors.
template <class Use>
void for_pieces(size_t count, const Use& use) {
  run_pieces((count + kPiece - 1) / kPiece,
             [&](size_t piece) { use(piece, piece * kPiece, std::min(count, (piece + 1) * kPiece)); });
}

struct WrongElements {
  size_t count = 0, first = 0;
};

}  // namespace

int64_t CollectiveData::value(int rank, size_t index) const {
  int64_t value = 0;
  make_values(*this, rank, index, 1, &value);
  return value;
}

int64_t CollectiveData::reduced(size_t index) const {
  int64_t value = 0;
  make_reduced_values(*this, index, 1, &value);
  return value;
}

void CollectiveData::fill(void* host, int rank, size_t first, size_t count) const {
  for_pieces(count, [&](size_t, size_t begin, size_t end) {
    int64_t values[kBlock];
    for (size_t at = begin; at < end; at += kBlock) {
      const size_t block = std::min(kBlock, end - at);
      make_values(*this, rank, first + at, block, values);
      store(type, static_cast<char*>(host) + at * size_of(type), values, block);
    }
  });
}

size_t CollectiveData::count_wrong(const void* host, const CollectiveRow& row, const CollectiveWorld& world,
                                   size_t first, size_t count, size_t* first_wrong) const {
  const size_t bytes = size_of(type);
  std::vector<WrongElements> pieces((count + kPiece - 1) / kPiece);
  for_pieces(count, [&](size_t piece, size_t begin, size_t end) {
    int64_t values[kBlock];
    char expected[kBlock * sizeof(int64_t)];
    WrongElements& wrong = pieces[piece];
    for (size_t at = begin, block = 0; at < end; at += block) {
      // Elements between two multiples of the call's count have consecutive sources.
      block = std::min({kBlock, end - at, world.count - (first + at) % world.count});
      const ElementSource from = row.source_of(world, first + at);
      if (from.source == ElementSource::kAll)
        make_reduced_values(*this, from.index, block, values);
      else
        make_values(*this, from.source, from.index, block, values);
      store(type, expected, values, block);
      const char* got = static_cast<const char*>(host) + at * bytes;
      if (std::memcmp(expected, got, block * bytes) == 0) continue;
      for (size_t i = 0; i < block; ++i) {
        if (std::memcmp(expected + i * bytes, got + i * bytes, bytes) == 0) continue;
        if (wrong.count++ == 0) wrong.first = first + at + i;
      }
    }
  });
  size_t all = 0;
  for (const WrongElements& wrong : pieces) {
    if (all == 0 && wrong.count > 0 && first_wrong) *first_wrong = wrong.first;
    all += wrong.count;
  }
  return all;
}

}  // namespace amdahl
