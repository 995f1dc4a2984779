#include "comm/reduce_kernels.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "base/small_floats.h"

namespace amdahl {
namespace {

constexpr size_t kBlock = 2048;  // elements, so that the accumulator fits the L1 cache

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
      return (a > b || a != a || (a == b && !std::signbit(a))) ? a : b;  // NaN propagates, +0 > -0
    else
      return a > b ? a : b;
  } else if constexpr (op == ReduceOp::min) {
    if constexpr (std::is_floating_point_v<A>)
      return (a < b || a != a || (a == b && std::signbit(a))) ? a : b;
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
    case DType::u32:
      return reduce_typed<uint32_t>(job);
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
