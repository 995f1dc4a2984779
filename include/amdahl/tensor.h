// Tensor: memory of the caller's with its element type, shape, strides and device, as arrays come from Python.
//
// Example: a batch of two samples of three features on the host.
//   float values[6] = {};
//   amdahl::Tensor batch{values, amdahl::DType::f32, {2, 3}};
//
// A Tensor owns nothing and its memory must outlive the call it is passed to. Different threads may use different
// tensors; nothing here has state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "amdahl/error.h"

namespace amdahl {

/// Element types of tensors, collectives and files; bf16 is the upper half of an f32.
enum class DType { f32, f64, f16, bf16, i32, i64, u8, u32 };
AMDAHL_API std::string_view to_string(DType type);
/// Bytes of one element.
AMDAHL_API size_t size_of(DType type);

inline constexpr int kHostMemory = -1;  // as a tensor's device

/// The fields of DLPack's DLTensor. `Pointer` is void* (to write) or const void* (to read).
template <class Pointer>
struct BasicTensor {
  Pointer data = nullptr;
  DType dtype = DType::f32;
  std::vector<int64_t> shape = {};
  int device = kHostMemory;      // CUDA index of the memory it lies in, or the host's
  std::vector<int64_t> strides = {};  // in elements; empty: dense, last dimension contiguous

  /// Product of the shape; 1 without dimensions.
  int64_t num_elements() const {
    int64_t count = 1;
    for (const int64_t extent : shape) count *= extent;
    return count;
  }
  /// Whether elements lie one after the other in row-major order, as every call of amdahl needs them.
  bool is_dense() const {
    if (strides.empty()) return true;
    if (strides.size() != shape.size()) return false;
    int64_t expected = 1;
    for (size_t i = shape.size(); i-- > 0;) {
      if (shape[i] != 1 && strides[i] != expected) return false;  // of one element, the stride does not count
      expected *= shape[i];
    }
    return true;
  }
};
using Tensor = BasicTensor<void*>;
using ConstTensor = BasicTensor<const void*>;

/// A parameter as the model has it, row-major: "layers.0.weight" [units, inputs], "layers.0.bias" [units].
struct NamedArray {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<float> values;
};

/// Element type of DLPack's code (0 int, 1 unsigned, 2 float, 4 bfloat), bits and lanes.
/// Throws Error{usage} for a type that amdahl does not have.
AMDAHL_API DType dtype_of_dlpack(int code, int bits, int lanes);
/// Device of DLPack's type (1 CPU, 2 CUDA, 3 pinned host, 13 managed) and index. Throws Error{usage} for others.
AMDAHL_API int device_of_dlpack(int type, int index);

/// A DLTensor (of dlpack.h, which amdahl does not include) as a Tensor over the same memory.
/// Throws Error{usage} for element types and devices that amdahl does not have.
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
