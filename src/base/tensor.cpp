#include "amdahl/tensor.h"

#include <array>
#include <string>

namespace amdahl {
namespace {

struct DTypeRow {
  DType type;
  std::string_view name;
  size_t bytes;
  int dlpack_code;
};

constexpr int kInt = 0, kUnsigned = 1, kFloat = 2, kBfloat = 4;  // DLDataTypeCode
constexpr std::array<DTypeRow, 8> kTypes{{
    {DType::f32, "f32", 4, kFloat},
    {DType::f64, "f64", 8, kFloat},
    {DType::f16, "f16", 2, kFloat},
    {DType::bf16, "bf16", 2, kBfloat},
    {DType::i32, "i32", 4, kInt},
    {DType::i64, "i64", 8, kInt},
    {DType::u8, "u8", 1, kUnsigned},
    {DType::u32, "u32", 4, kUnsigned},
}};

const DTypeRow& row_of(DType type) {
  for (const DTypeRow& row : kTypes)
    if (row.type == type) return row;
  throw Error(Cause::internal, "an element type without a row");
}

}  // namespace

std::string_view to_string(DType type) { return row_of(type).name; }
size_t size_of(DType type) { return row_of(type).bytes; }

DType dtype_of_dlpack(int code, int bits, int lanes) {
  for (const DTypeRow& row : kTypes)
    if (row.dlpack_code == code && row.bytes * 8 == static_cast<size_t>(bits) && lanes == 1) return row.type;
  throw Error(Cause::usage,
              "DLPack type with code " + std::to_string(code) + ", " + std::to_string(bits) + " bits and " +
                  std::to_string(lanes) + " lanes",
              "f32, f64, f16, bf16, i32, i64, u8 or u32, one lane");
}

int device_of_dlpack(int type, int index) {
  constexpr int kCpu = 1, kCuda = 2, kCudaHost = 3, kCudaManaged = 13;  // DLDeviceType
  if (type == kCpu || type == kCudaHost) return kHostMemory;
  if (type == kCuda || type == kCudaManaged) return index;
  throw Error(Cause::usage, "DLPack device type " + std::to_string(type), "memory of the host or of a CUDA device");
}

}  // namespace amdahl
