// gzip compression with zlib.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "amdahl/error.h"

namespace amdahl {

/// Compresses `text` into a gzip file. Error{environment_missing} in a build without zlib.
std::string gzip(std::string_view text);

/// Whether `bytes` start with the gzip magic number.
inline bool is_gzip(std::string_view bytes) { return bytes.starts_with("\x1F\x8B"); }

/// Decompresses a gzip file. Error{cause} naming `origin` when it is damaged, truncated or longer than `most_bytes`
/// uncompressed; Error{environment_missing} in a build without zlib.
std::string gunzip(std::string_view bytes, const std::string& origin, Cause cause, size_t most_bytes);

}  // namespace amdahl
