// Sizes, counts and their text forms.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "amdahl/error.h"

namespace amdahl {

/// "8", "32M" (2^25 as in nccl-tests), "1GiB" to bytes; throws Error{usage} naming `what`.
AMDAHL_API int64_t parse_size_bytes(std::string_view text, std::string_view what);
/// "6.9M", "250k", "54403" to a count (decimal multiples); throws Error{usage} naming `what`.
AMDAHL_API int64_t parse_count(std::string_view text, std::string_view what);
/// "1,2,4" or "1..8x2" (1,2,4,8) or "0..3" to positive integers; throws Error{usage} naming `what`.
AMDAHL_API std::vector<int64_t> parse_count_list(std::string_view text, std::string_view what, int64_t minimum = 1);
/// 6885376 as "6,885,376".
AMDAHL_API std::string with_thousands(int64_t value);
/// Bytes as "27.5 MB" (decimal).
AMDAHL_API std::string format_bytes(double bytes);
/// Seconds as "1m20s", "850 ms" or "12 us".
AMDAHL_API std::string format_duration(double seconds);
/// Text of unknown origin, safe for a terminal: control characters and broken UTF-8 become \xNN, and what exceeds
/// `longest` bytes is cut out of the middle.
AMDAHL_API std::string printable(std::string_view text, size_t longest = std::string_view::npos);
/// The entry of `known` nearest to `word` by edit distance, or empty if none is close.
AMDAHL_API std::string nearest_name(std::string_view word, const std::vector<std::string>& known);
/// A remedy for an unknown name: "medium? or one of medium, large".
AMDAHL_API std::string choices_hint(std::string_view word, const std::vector<std::string>& known);

}  // namespace amdahl
