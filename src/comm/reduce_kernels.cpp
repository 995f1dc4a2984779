#include "comm/reduce_kernels.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace amdahl {
namespace {

constexpr size_t kBlock = 2048;  // elements; the accumulator stays in the first-level cache

struct Half {
  uint16_t bits;
};
struct Bfloat {
  uint16_t bits;
};

template <class To, class From>
To bits_as(From value) {
  static_assert(sizeof(To) == sizeof(From));
  To result;
  std::memcpy(&result, &value, sizeof result);
  return result;
}

float to_float(Bfloat value) { return bits_as<float>(static_cast<uint32_t>(value.bits) << 16); }

Bfloat to_bfloat(float value) {
  const auto bits = bits_as<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {static_cast<uint16_t>((bits >> 16) | 0x40u)};  // keep NaN a NaN
  return {static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};  // nearest, ties to even
}

float to_float(Half value) {
  const uint32_t sign = static_cast<uint32_t>(value.bits & 0x8000u) << 16;
  const uint32_t magnitude = value.bits & 0x7fffu;
  if (magnitude >= 0x7c00u) return bits_as<float>(sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13));
  // A half's exponent and fraction, read as a float's, are 2^112 too small; the product is exact, subnormals included.
  return bits_as<float>(sign | bits_as<uint32_t>(bits_as<float>(magnitude << 13) * 0x1p112f));
}

Half to_half(float value) {
  const auto bits = bits_as<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return {static_cast<uint16_t>(sign | 0x7e00u)};
  if (magnitude >= 0x477ff000u) return {static_cast<uint16_t>(sign | 0x7c00u)};  // rounds to 65,536 or more
  if (magnitude < 0x38800000u) {  // a subnormal half: adding 0.5 makes the float unit round at 2^-24
    const auto rounded = bits_as<uint32_t>(bits_as<float>(magnitude) + 0.5f) - 0x3f000000u;
    return {static_cast<uint16_t>(sign | rounded)};
  }
  return {static_cast<uint16_t>(sign | ((magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13))};
}

template <class T>
struct Accumulator {
  using type = T;
  static T load(T value) { return value; }
  static T store(T value) { return value; }
};
template <>
struct Accumulator<Half> {
  using type = float;
  static float load(Half value) { return to_float(value); }
  static Half store(float value) { return to_half(value); }
};
template <>
struct Accumulator<Bfloat> {
  using type = float;
  static float load(Bfloat value) { return to_float(value); }
  static Bfloat store(float value) { return to_bfloat(value); }
};

template <ReduceOp op, class A>
A combine(A a, A b) {
  if constexpr (op == ReduceOp::max) {
    if constexpr (std::is_floating_point_v<A>)
      return (a > b || a != a) ? a : b;  // a NaN in either stays visible
    else
      return a > b ? a : b;
  } else if constexpr (op == ReduceOp::min) {
    if constexpr (std::is_floating_point_v<A>)
      return (a < b || a != a) ? a : b;
    else
      return a < b ? a : b;
  } else if constexpr (std::is_integral_v<A>) {
    using U = std::make_unsigned_t<A>;
    if constexpr (op == ReduceOp::prod)
      return static_cast<A>(uint64_t{static_cast<U>(a)} * static_cast<U>(b));
    else
      return static_cast<A>(static_cast<U>(a) + static_cast<U>(b));
  } else {
    return op == ReduceOp::prod ? a * b : a + b;
  }
}

template <class T, ReduceOp op>
void reduce_block(const ReduceJob& job, size_t begin, size_t n) {
  using Acc = Accumulator<T>;
  typename Acc::type sum[kBlock];
  const T* first = static_cast<const T*>(job.sources[0]) + begin;
  for (size_t i = 0; i < n; ++i) sum[i] = Acc::load(first[i]);
  for (size_t s = 1; s < job.sources.size(); ++s) {
    const T* source = static_cast<const T*>(job.sources[s]) + begin;
    for (size_t i = 0; i < n; ++i) sum[i] = combine<op>(sum[i], Acc::load(source[i]));
  }
  if constexpr (op == ReduceOp::avg) {
    const auto ranks = static_cast<typename Acc::type>(job.sources.size());
    for (size_t i = 0; i < n; ++i) sum[i] = static_cast<typename Acc::type>(sum[i] / ranks);
  }
  for (void* destination : job.destinations) {
    T* out = static_cast<T*>(destination) + begin;
    for (size_t i = 0; i < n; ++i) out[i] = Acc::store(sum[i]);
  }
}

template <class T>
void reduce_typed(const ReduceJob& job) {
  for (size_t begin = job.begin; begin < job.end; begin += kBlock) {
    const size_t n = std::min(kBlock, job.end - begin);
    switch (job.op) {
      case ReduceOp::sum:
        reduce_block<T, ReduceOp::sum>(job, begin, n);
        break;
      case ReduceOp::max:
        reduce_block<T, ReduceOp::max>(job, begin, n);
        break;
      case ReduceOp::min:
        reduce_block<T, ReduceOp::min>(job, begin, n);
        break;
      case ReduceOp::prod:
        reduce_block<T, ReduceOp::prod>(job, begin, n);
        break;
      case ReduceOp::avg:
        reduce_block<T, ReduceOp::avg>(job, begin, n);
        break;
    }
  }
}

}  // namespace

void reduce_in_order(const ReduceJob& job) {
  if (job.sources.empty() || job.begin >= job.end) return;
  switch (job.type) {
    case DType::f32:
      return reduce_typed<float>(job);
    case DType::f64:
      return reduce_typed<double>(job);
    case DType::f16:
      return reduce_typed<Half>(job);
    case DType::bf16:
      return reduce_typed<Bfloat>(job);
    case DType::i32:
      return reduce_typed<int32_t>(job);
    case DType::i64:
      return reduce_typed<int64_t>(job);
    case DType::u8:
      return reduce_typed<uint8_t>(job);
  }
}

ElementRange share_of(size_t count, int rank, int world_size) {
  constexpr size_t kGrain = 64;  // elements: at least one cache line of any type
  const auto world = static_cast<size_t>(world_size);
  const size_t share = ((count + world - 1) / world + kGrain - 1) / kGrain * kGrain;
  const size_t begin = std::min(count, share * static_cast<size_t>(rank));
  return {begin, std::min(count, begin + share)};
}

}  // namespace amdahl
