// Files of tokens as 16-bit indices of a vocabulary.
//
// With a header: 256 little-endian int32, of which [0] is 20240520, [1] is 1 (the version) and [2] the number of
// tokens; then the tokens. Without: the tokens alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "amdahl/error.h"

namespace amdahl {

struct TokenFile {
  size_t header_bytes = 0;  // 0 without a header
  std::vector<uint16_t> tokens;
};

/// Parses a file of tokens; errors name `origin`. Error{data_corrupt} when it is empty, has an odd number of bytes, a
/// header of another version, or a number of tokens that differs from the header's.
TokenFile parse_token_file(std::string_view bytes, const std::string& origin);

/// Reads and parses a file. Error{usage} when it cannot be read; other errors as parse_token_file.
TokenFile read_token_file(const std::filesystem::path& path);

}  // namespace amdahl
