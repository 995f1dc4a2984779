// Compression of text by zlib.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "amdahl/error.h"

namespace amdahl {

/// `text` as a gzip file. Error{environment_missing} in a build without zlib.
std::string gzip(std::string_view text);

/// Whether `bytes` begin as a gzip file does.
inline bool is_gzip(std::string_view bytes) { return bytes.starts_with("\x1F\x8B"); }

/// The text of a gzip file, at most `most_bytes` of it. Error{cause} naming `origin` when it is damaged, cut off or
/// longer; Error{environment_missing} in a build without zlib.
std::string gunzip(std::string_view bytes, const std::string& origin, Cause cause, size_t most_bytes);

}  // namespace amdahl
