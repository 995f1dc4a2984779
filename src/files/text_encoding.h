// Text that is not UTF-8, and data that are no text.
#pragma once

#include <string>
#include <string_view>

namespace amdahl {

/// "UTF-16" or "UTF-32" where a byte order mark or a pattern of zero bytes says so; else empty.
std::string_view wide_encoding(std::string_view bytes);

/// Error{data_corrupt} for text in UTF-16 or UTF-32, whose bytes are not characters, and for a NUL byte, with the line.
void require_text(std::string_view bytes, const std::string& path);

}  // namespace amdahl
