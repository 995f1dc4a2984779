// Arrays of the block kernels on the CPU: random parameters and inputs that the compute type represents, in memory with
// guard pages.
#pragma once

#include <cstring>
#include <memory>
#include <random>
#include <type_traits>
#include <vector>

#include "cuda_bf16.h"
#include "cuda_fp16.h"
#include "emulator.h"
#include "ops/cuda_typed.cuh"

namespace amdahl::emulator {

/// `count` elements of T, NaN at first.
template <class T>
class Array {
 public:
  explicit Array(int64_t count)
      : count_(static_cast<size_t>(count)), memory_(std::make_unique<GuardedMemory>(count_ * sizeof(T))) {}
  Array(int64_t count, uint32_t seed, float low, float high) : Array(count) {
    std::mt19937 engine(seed);
    std::uniform_real_distribution<float> uniform(low, high);
    for (size_t i = 0; i < count_; ++i) data()[i] = to_element<T>(uniform(engine));
  }
  T* data() { return reinterpret_cast<T*>(memory_->data()); }
  std::vector<double> values() {
    std::vector<double> values(count_);
    for (size_t i = 0; i < count_; ++i) values[i] = to_float(data()[i]);
    return values;
  }
  std::vector<unsigned char> bits() {
    std::vector<unsigned char> bits(count_ * sizeof(T));
    std::memcpy(bits.data(), memory_->data(), bits.size());
    return bits;
  }

 private:
  size_t count_;
  std::unique_ptr<GuardedMemory> memory_;
};

/// The distance of neighbouring values, relative: bf16 and f16 have 8 and 11 bits of significand, tf32 11.
template <class T>
double unit_of() {
  return std::is_same_v<T, __nv_bfloat16> ? 0x1p-8 : 0x1p-11;
}

}  // namespace amdahl::emulator
