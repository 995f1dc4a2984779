// Element types, density of strides, and arrays that come in as DLPack hands them over.
#include "amdahl/tensor.h"

#include <gtest/gtest.h>

#include <array>

namespace amdahl {
namespace {

// dlpack.h's structures, field by field.
struct DLDevice {
  int device_type;
  int32_t device_id;
};
struct DLDataType {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
};
struct DLTensor {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
};

constexpr std::array kAll{DType::f32, DType::f64, DType::f16, DType::bf16,
                          DType::i32, DType::i64, DType::u8,  DType::u32};

TEST(Tensor, EveryTypeHasANameASizeAndADlpackCode) {
  for (const DType type : kAll) {
    const std::string_view name = to_string(type);
    const int code = name[0] == 'i' ? 0 : name[0] == 'u' ? 1 : name[0] == 'f' ? 2 : 4;
    const size_t digits = name.find_first_of("0123456789");
    const int bits = std::stoi(std::string(name.substr(digits)));
    EXPECT_EQ(size_of(type) * 8, static_cast<size_t>(bits)) << name;
    EXPECT_EQ(dtype_of_dlpack(code, bits, 1), type) << name;
  }
}

TEST(Tensor, IsDenseOnlyInRowMajorOrder) {
  float data[24];
  const auto dense = [&](std::vector<int64_t> shape, std::vector<int64_t> strides) {
    return Tensor{data, DType::f32, std::move(shape), kHostMemory, std::move(strides)}.is_dense();
  };
  EXPECT_TRUE(dense({2, 3, 4}, {}));
  EXPECT_TRUE(dense({2, 3, 4}, {12, 4, 1}));
  EXPECT_TRUE(dense({2, 1, 4}, {4, 99, 1}));  // the stride of one element does not count
  EXPECT_TRUE(dense({}, {}));
  EXPECT_FALSE(dense({2, 3, 4}, {1, 2, 6}));   // column-major
  EXPECT_FALSE(dense({2, 3, 4}, {24, 4, 1}));  // a part of a larger array
  EXPECT_FALSE(dense({2, 3, 4}, {4, 1}));      // strides of another shape
  EXPECT_EQ((Tensor{data, DType::f32, {2, 3, 4}}).num_elements(), 24);
}

TEST(Tensor, ComesFromDlpackWithoutACopy) {
  std::array<double, 12> data{};
  std::array<int64_t, 2> shape{2, 5}, strides{6, 1};
  const DLTensor source{data.data(), {2, 3}, 2, {2, 64, 1}, shape.data(), strides.data(), 8};
  const Tensor tensor = from_dlpack(source);
  EXPECT_EQ(tensor.data, data.data() + 1);
  EXPECT_EQ(tensor.dtype, DType::f64);
  EXPECT_EQ(tensor.device, 3);
  EXPECT_EQ(tensor.shape, (std::vector<int64_t>{2, 5}));
  EXPECT_EQ(tensor.strides, (std::vector<int64_t>{6, 1}));
  EXPECT_FALSE(tensor.is_dense());
  DLTensor compact = source;
  compact.strides = nullptr;
  compact.device = {1, 0};
  EXPECT_TRUE(from_dlpack(compact).is_dense());
  EXPECT_EQ(from_dlpack(compact).device, kHostMemory);
}

TEST(Tensor, OtherDlpackTypesAndDevicesAreRefused) {
  const auto cause_of = [](const auto& call) {
    try {
      call();
    } catch (const Error& error) {
      EXPECT_FALSE(error.remedy().empty());
      return error.cause();
    }
    return Cause::internal;
  };
  EXPECT_EQ(cause_of([] { dtype_of_dlpack(5, 64, 1); }), Cause::usage);  // complex
  EXPECT_EQ(cause_of([] { dtype_of_dlpack(2, 32, 4); }), Cause::usage);  // vectors
  EXPECT_EQ(cause_of([] { dtype_of_dlpack(0, 16, 1); }), Cause::usage);  // i16
  EXPECT_EQ(cause_of([] { device_of_dlpack(10, 0); }), Cause::usage);    // ROCm
}

}  // namespace
}  // namespace amdahl
