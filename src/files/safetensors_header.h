// The JSON header of a safetensors file. Internal to the reader and writer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace amdahl {

inline constexpr std::string_view kMetadataName = "__metadata__";

struct HeaderEntry {
  std::string name, dtype;
  std::vector<int64_t> shape;
  size_t begin = 0, end = 0;  // of the data
};

struct SafetensorsHeader {
  std::vector<HeaderEntry> entries;
  std::map<std::string, std::string> metadata;
};

/// Parses the header, which begins at byte `offset` of the file. Error{data_corrupt} with the byte in the file for
/// anything but the format's object.
SafetensorsHeader scan_safetensors_header(std::string_view text, size_t offset, const std::string& origin);

/// A JSON string of that text.
std::string quote_json(std::string_view text);

}  // namespace amdahl
