// Point clouds in PLY files: a header in text that names elements and their properties, then the elements, as lines of
// text or in binary of either byte order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "amdahl/sensor_files.h"
#include "files/scalars.h"

namespace amdahl {

struct PlyProperty {
  std::string name;
  size_t bytes = 0;  // of one value; of a list: of each item
  ReadScalar read = nullptr;
  size_t count_bytes = 0;  // of a list's length; 0: not a list
  ReadScalar read_count = nullptr;

  bool is_list() const { return count_bytes > 0; }
};

struct PlyElement {
  std::string name;
  size_t count = 0;
  std::vector<PlyProperty> properties;

  bool has_lists() const;
  /// Bytes a row takes in binary; the least it can take when it has lists.
  size_t row_bytes() const;
};

struct PlyHeader {
  enum class Format { ascii, binary_little_endian, binary_big_endian };
  Format format = Format::ascii;
  std::vector<PlyElement> elements;
  size_t body = 0;        // where the elements begin, bytes
  int64_t body_line = 1;  // the line, counted from 1
};

std::string_view to_string(PlyHeader::Format format);

/// Error{data_corrupt} with the line.
PlyHeader parse_ply_header(std::string_view bytes, const std::string& path);

/// A whole file's cloud.
PointCloud parse_ply(std::string_view bytes, const std::string& path);

}  // namespace amdahl
