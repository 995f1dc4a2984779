// Arrays in numpy's format, version 1.0 to 3.0: a magic number, a header that is a Python dictionary, the elements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "amdahl/sensor_files.h"
#include "files/scalars.h"

namespace amdahl {

/// A file's array, its elements still as the file has them.
struct NpyArray {
  std::string origin;  // file and array, for errors
  std::vector<int64_t> shape;
  bool fortran_order = false;
  size_t element_bytes = 0;
  ReadScalar read = nullptr;
  std::string bytes;  // of the whole file
  size_t begin = 0;   // of the elements

  size_t num_elements() const;
  /// "[3, 4]".
  std::string shape_text() const;
};

/// Takes the bytes of a .npy file. Error{data_corrupt} with the byte offset when they are not one whole array of
/// numbers.
NpyArray parse_npy(std::string bytes, std::string origin);

/// Visits the elements in row-major order, whatever order the file has.
template <class Visit>
void for_each_element(const NpyArray& array, Visit&& visit) {
  const size_t dims = array.shape.size(), count = array.num_elements();
  std::vector<size_t> strides(dims), index(dims, 0);
  size_t stride = array.element_bytes;
  for (size_t i = 0; i < dims; ++i) {
    const size_t dim = array.fortran_order ? i : dims - 1 - i;
    strides[dim] = stride;
    stride *= static_cast<size_t>(array.shape[dim]);
  }
  const char* at = array.bytes.data() + array.begin;
  for (size_t n = 0; n < count; ++n) {
    visit(array.read(at));
    for (size_t dim = dims; dim-- > 0;) {  // the odometer of a row-major walk
      at += strides[dim];
      if (++index[dim] < static_cast<size_t>(array.shape[dim])) break;
      at -= strides[dim] * index[dim];
      index[dim] = 0;
    }
  }
}

/// What precedes the elements in a .npy file.
std::string npy_header(const FileArray& array);
/// Error{usage} when the shape is negative or too large.
size_t num_bytes(const FileArray& array);

}  // namespace amdahl
