// Arrays in numpy's .npy format, versions 1.0 to 3.0: a magic number, a header that is a Python dictionary, the
// elements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "amdahl/sensor.h"
#include "files/scalars.h"

namespace amdahl {

/// An array of a file, with its elements in the file's encoding.
struct NpyArray {
  std::string origin;  // names of file and array, for errors
  std::vector<int64_t> shape;
  bool fortran_order = false;
  std::string type;  // as the file has it: "<f4", "|u1"
  size_t element_bytes = 0;
  ReadScalar read = nullptr;
  std::string bytes;  // content of the whole file
  size_t begin = 0;   // offset of the elements in `bytes`

  size_t num_elements() const;
  /// "[3, 4]".
  std::string shape_text() const;
};

/// Parses a .npy file. Error{data_corrupt} with the byte offset when it is not one complete numeric array.
NpyArray parse_npy(std::string bytes, std::string origin);

/// Visits the elements in row-major order, also for an array stored in Fortran order.
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
    for (size_t dim = dims; dim-- > 0;) {  // increment the row-major index, with carry
      at += strides[dim];
      if (++index[dim] < static_cast<size_t>(array.shape[dim])) break;
      at -= strides[dim] * index[dim];
      index[dim] = 0;
    }
  }
}

/// The header of a .npy file: everything before the elements.
std::string npy_header(const FileArray& array);
/// Bytes of the elements. Error{usage} when the shape is negative or too large.
size_t num_bytes(const FileArray& array);

}  // namespace amdahl
