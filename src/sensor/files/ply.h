// Point clouds in PLY files: a text header that names elements and their properties, then the elements, as lines of
// text or in binary of either byte order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "amdahl/sensor.h"
#include "files/scalars.h"

namespace amdahl {

struct PlyProperty {
  std::string name;
  size_t bytes = 0;  // size of one value, or of one item of a list
  ReadScalar read = nullptr;
  size_t count_bytes = 0;  // size of a list's length field; 0: not a list
  ReadScalar read_count = nullptr;

  bool is_list() const { return count_bytes > 0; }
};

struct PlyElement {
  std::string name;
  size_t count = 0;
  std::vector<PlyProperty> properties;

  bool has_lists() const;
  /// Bytes of one row in binary; with lists, the minimum.
  size_t row_bytes() const;
};

struct PlyHeader {
  enum class Format { ascii, binary_little_endian, binary_big_endian };
  Format format = Format::ascii;
  std::vector<PlyElement> elements;
  size_t body = 0;        // byte offset of the elements
  int64_t body_line = 1;  // line number of the elements, from 1
};

std::string_view to_string(PlyHeader::Format format);

/// Throws Error{data_corrupt} with the line number.
PlyHeader parse_ply_header(std::string_view bytes, const std::string& path);

/// Parses a complete PLY file.
PointCloud parse_ply(std::string_view bytes, const std::string& path);

}  // namespace amdahl
