// Files of tokens: indices of a vocabulary, as 16-, 32- or 64-bit integers.
//
// With a header: 256 little-endian int32, of which [0] is a magic number, [1] the version and [2] the number of tokens;
// then the tokens. 20240520, 1: 16-bit tokens. 20240801, 7: 32-bit tokens. Without: the tokens alone.
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
  size_t token_bytes = sizeof(uint16_t);
  std::vector<uint32_t> tokens;
};

/// Bytes of a token of type "u16", "u32" or "u64"; 0 for ""; Error{usage} otherwise.
size_t token_width(const std::string& type);

/// Parses a file of tokens; errors name `origin`. `width`: bytes of a token where there is no header; 0: two, unless
/// the numbers look like wider tokens. Error{data_corrupt} when it is empty, is not a whole number of tokens, holds one
/// beyond 32 bits, looks like tokens of another width, has a header that is not known, is of another kind of file, or
/// whose number of tokens is another. Error{usage} for a width that is not the header's.
TokenFile parse_token_file(std::string_view bytes, const std::string& origin, size_t width = 0);

/// Reads and parses a file. Error{usage} when it cannot be read; other errors as parse_token_file.
TokenFile read_token_file(const std::filesystem::path& path, size_t width = 0);

}  // namespace amdahl
