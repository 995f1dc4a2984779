// Arrays of f32, bf16 and f16 on a GPU, and what tests of operations on them share.
#pragma once

#include <cstring>
#include <ostream>

#include "base/small_floats.h"
#include "gpu_support.h"
#include "reference_sequence.h"

namespace amdahl {

using test::reference::Values;

/// A type of elements with the math mode of f32.
struct TypeCase {
  DType type;
  MathMode math;
  bool deterministic = false;
};
inline std::ostream& operator<<(std::ostream& out, const TypeCase& c) {
  return out << to_string(c.type) << " " << to_string(c.math) << (c.deterministic ? " deterministic" : "");
}
inline std::vector<TypeCase> type_cases() {
  return {{DType::f32, MathMode::fp32}, {DType::f32, MathMode::tf32},        {DType::bf16, MathMode::bf16},
          {DType::f16, MathMode::tf32}, {DType::bf16, MathMode::bf16, true}, {DType::f32, MathMode::tf32, true}};
}

/// Half the distance of neighbouring values, relative: the most that rounding a result to the type changes it. The
/// types have 24, 8 and 11 bits of significand.
inline double unit_of(DType type) { return type == DType::f32 ? 0x1p-24 : type == DType::bf16 ? 0x1p-8 : 0x1p-11; }

inline float rounded(float value, DType type) {
  return type == DType::f32 ? value : type == DType::bf16 ? to_float(to_bfloat(value)) : to_float(to_half(value));
}

/// Values that the type represents, so that a reference computes with the same inputs.
inline std::vector<float> typed_floats(int64_t n, uint32_t seed, DType type, float low = -1.0f, float high = 1.0f) {
  std::vector<float> values = random_floats(n, seed, low, high);
  for (float& value : values) value = rounded(value, type);
  return values;
}

inline Values to_doubles(const std::vector<float>& values) { return Values(values.begin(), values.end()); }

/// Device memory of a type, poisoned with NaN or filled from the host. `skip` elements shift its alignment.
class TypedArray {
 public:
  TypedArray(Device& device, Stream& stream, DType type, int64_t n, int64_t skip = 0)
      : type_(type), n_(n), bytes_(device, stream, n * size(), skip * size()) {}
  TypedArray(Device& device, Stream& stream, DType type, const std::vector<float>& values, int64_t skip = 0)
      : TypedArray(device, stream, type, static_cast<int64_t>(values.size()), skip) {
    set(values);
  }
  void* data() { return bytes_.data(); }
  float* floats() { return static_cast<float*>(data()); }
  void set(const std::vector<float>& values) {
    std::vector<unsigned char> bytes(values.size() * static_cast<size_t>(size()));
    for (size_t i = 0; i < values.size(); ++i) {
      const float value = values[i];
      const uint16_t bits = type_ == DType::bf16 ? to_bfloat(value).bits : to_half(value).bits;
      std::memcpy(&bytes[i * static_cast<size_t>(size())],
                  type_ == DType::f32 ? static_cast<const void*>(&value) : static_cast<const void*>(&bits),
                  static_cast<size_t>(size()));
    }
    bytes_.set(bytes);
  }
  std::vector<unsigned char> bits() { return bytes_.get(); }
  std::vector<float> get() {
    const std::vector<unsigned char> bytes = bits();
    std::vector<float> values(static_cast<size_t>(n_));
    for (size_t i = 0; i < values.size(); ++i) {
      const unsigned char* at = &bytes[i * static_cast<size_t>(size())];
      uint16_t half = 0;
      if (type_ == DType::f32)
        std::memcpy(&values[i], at, sizeof(float));
      else
        std::memcpy(&half, at, sizeof half);
      if (type_ == DType::bf16) values[i] = to_float(Bfloat{half});
      if (type_ == DType::f16) values[i] = to_float(Half{half});
    }
    return values;
  }

 private:
  int64_t size() const { return static_cast<int64_t>(size_of(type_)); }
  DType type_;
  int64_t n_;
  GpuArray<unsigned char> bytes_;
};

/// A GPU with Ops of the case.
class TypedOpsTest : public GpuTest, public ::testing::WithParamInterface<TypeCase> {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (device) ops = make_cuda_ops(*device, {GetParam().math, GetParam().deterministic});
  }
  DType type() const { return GetParam().type; }
  TypedArray typed(const std::vector<float>& values, int64_t skip = 0) { return typed(type(), values, skip); }
  TypedArray typed(DType of, const std::vector<float>& values, int64_t skip = 0) {
    return {*device, *stream, of, values, skip};
  }
  TypedArray typed(int64_t n) { return typed(type(), n); }
  TypedArray typed(DType of, int64_t n, int64_t skip = 0) { return {*device, *stream, of, n, skip}; }
  /// Enqueues `work` three times: eagerly, eagerly again, and as a graph. `bits` reads what it wrote, which must be
  /// equal each time; `clear` poisons it before.
  template <class Work, class Clear, class Bits>
  void expect_equal_reruns(const Work& work, const Clear& clear, const Bits& bits) {
    work();
    const auto first = bits();
    clear();
    work();
    EXPECT_EQ(bits(), first) << "an eager rerun";
    clear();
    finish();
    const auto graph = device->capture(*stream, work);
    graph->launch(*stream);
    finish();
    EXPECT_EQ(bits(), first) << "a replayed graph";
  }
  std::unique_ptr<Ops> ops;
};

}  // namespace amdahl
