// Compression of text that other programs read, by zlib.
#pragma once

#include <string>
#include <string_view>

namespace amdahl {

/// `text` as a gzip file. Error{environment_missing} in a build without zlib.
std::string gzip(std::string_view text);

}  // namespace amdahl
