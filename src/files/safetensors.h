// Named tensors in the safetensors format: 8 bytes with the length of a JSON header, the header, the tensors.
//
// The header is {"name": {"dtype": "F32", "shape": [3, 4], "data_offsets": [begin, end]}, ...,
// "__metadata__": {"key": "text", ...}}; offsets count from the end of the header. The tensors cover the rest of the
// file without gaps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "amdahl/tensor.h"

namespace amdahl {

/// A tensor of a file: its elements are `data`, little-endian, row-major.
struct SafeTensor {
  std::string name;
  std::string dtype;  // "F32", "U64", ... as the format has it
  std::vector<int64_t> shape;
  std::string_view data;  // of the file's bytes, or of the caller's memory
};

struct SafeTensors {
  std::vector<SafeTensor> tensors;  // in the order of their data
  std::map<std::string, std::string> metadata;
  size_t header_bytes = 0;  // length and header: where the tensors begin

  /// The tensor of that name, or null.
  const SafeTensor* find(std::string_view name) const;
};

/// Parses a file; the tensors refer to `bytes`. Error{data_corrupt} that names `origin` and the byte: a file that is
/// cut off, a header that is no such JSON, names that occur twice, sizes that do not fit the shape, tensors that
/// overlap, leave gaps or end outside of the file.
SafeTensors parse_safetensors(std::string_view bytes, const std::string& origin);

/// The length and the header of a file of these tensors, in their order. The tensors begin at a multiple of 64 bytes.
/// Error{usage} for a name that occurs twice or is "__metadata__".
std::string safetensors_header(const std::vector<SafeTensor>& tensors,
                               const std::map<std::string, std::string>& metadata);

/// Writes the arrays as F32 tensors, atomically. Error{usage} for a name that does not end in .safetensors or occurs
/// twice, and a path that cannot be written; Error{disk_full}.
void save_safetensors(const std::filesystem::path& path, const std::vector<NamedArray>& arrays,
                      const std::map<std::string, std::string>& metadata);

/// A view of an array of f32 as a tensor.
SafeTensor as_tensor(const NamedArray& array);
/// The elements of an F32, F16 or BF16 tensor. Error{data_corrupt} for another type.
std::vector<float> floats_of(const SafeTensor& tensor, const std::string& origin);
/// The elements of an F32 tensor. Error{data_corrupt} for another type.
NamedArray as_array(const SafeTensor& tensor, const std::string& origin);

}  // namespace amdahl
