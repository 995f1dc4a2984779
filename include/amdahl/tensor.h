// Tensor: a view of memory of the caller with element type, shape, strides and device.
//
// Example: a batch of two samples with three features each, in host memory.
//   float values[6] = {};
//   amdahl::Tensor batch{values, amdahl::DType::f32, {2, 3}};
//
// A Tensor does not own its memory, which must outlive the call that it is passed to. Thread-safe for reading; the
// functions have no state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "amdahl/error.h"

namespace amdahl {

/// Element types of tensors, collectives and files; bf16 is the upper half of an f32.
enum class DType { f32, f64, f16, bf16, i32, i64, u8, u32 };
AMDAHL_API std::string_view to_string(DType type);
/// Bytes of one element.
AMDAHL_API size_t size_of(DType type);

inline constexpr int kHostMemory = -1;  // BasicTensor::device of host memory

/// The fields of DLPack's DLTensor. `Pointer` is void* (writable) or const void* (read-only).
template <class Pointer>
struct BasicTensor {
  Pointer data = nullptr;
  DType dtype = DType::f32;
  std::vector<int64_t> shape;
  int device = kHostMemory;      // CUDA device index, or kHostMemory
  std::vector<int64_t> strides;  // in elements; empty: dense, last dimension contiguous

  BasicTensor() = default;
  BasicTensor(Pointer elements, DType type, std::vector<int64_t> extents, int where = kHostMemory,
              std::vector<int64_t> steps = {})
      : data(elements), dtype(type), shape(std::move(extents)), device(where), strides(std::move(steps)) {}

  /// Product of the extents; 1 without dimensions.
  int64_t num_elements() const {
    int64_t count = 1;
    for (const int64_t extent : shape) count *= extent;
    return count;
  }
  /// Whether the elements are contiguous in row-major order, which every call of amdahl requires. Without elements
  /// every stride will do.
  bool is_dense() const {
    if (strides.empty()) return true;
    if (strides.size() != shape.size()) return false;
    for (const int64_t extent : shape)
      if (extent == 0) return true;
    int64_t expected = 1;
    for (size_t i = shape.size(); i-- > 0;) {
      if (shape[i] != 1 && strides[i] != expected) return false;  // the stride of an extent of 1 is irrelevant
      expected *= shape[i];
    }
    return true;
  }
};
using Tensor = BasicTensor<void*>;
using ConstTensor = BasicTensor<const void*>;

/// A parameter of a model, row-major: "layers.0.weight" [units, inputs], "layers.0.bias" [units].
struct NamedArray {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<float> values;
};

/// Element type of a DLPack type code (0 int, 1 unsigned, 2 float, 4 bfloat), bits and lanes. Error{usage} for types
/// that amdahl does not support.
AMDAHL_API DType dtype_of_dlpack(int code, int bits, int lanes);
/// Device of a DLPack device type (1 CPU, 2 CUDA, 3 pinned host, 13 managed) and index. Error{usage} for other types.
AMDAHL_API int device_of_dlpack(int type, int index);

/// Makes a Tensor over the memory of a DLTensor (of dlpack.h, which amdahl does not include). Error{usage} for element
/// types and devices that amdahl does not support.
template <class DLTensor>
Tensor from_dlpack(const DLTensor& source) {
  Tensor tensor;
  tensor.data = static_cast<char*>(source.data) + source.byte_offset;
  tensor.dtype = dtype_of_dlpack(source.dtype.code, source.dtype.bits, source.dtype.lanes);
  tensor.device = device_of_dlpack(static_cast<int>(source.device.device_type), source.device.device_id);
  tensor.shape.assign(source.shape, source.shape + source.ndim);
  if (source.strides) tensor.strides.assign(source.strides, source.strides + source.ndim);
  return tensor;
}

}  // namespace amdahl
