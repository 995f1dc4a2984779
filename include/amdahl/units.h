// Sizes, counts and their text forms. All functions are thread-safe.
//
// Example:
//   const int64_t bytes = amdahl::parse_size_bytes("32M", "buffer");  // 33554432
//   std::puts(amdahl::format_bytes(bytes).c_str());                   // 33.6 MB
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "amdahl/error.h"

namespace amdahl {

/// Parses "8", "32M" (2^25, binary as in nccl-tests) or "1GiB" to bytes. Error{usage} that names `what`.
AMDAHL_API int64_t parse_size_bytes(std::string_view text, std::string_view what);
/// Parses "6.9M", "250k" or "54403" to a count, with decimal multiples. Error{usage} that names `what`.
AMDAHL_API int64_t parse_count(std::string_view text, std::string_view what);
/// Parses "1,2,4", "1..8x2" (1,2,4,8) or "0..3" to integers of at least `minimum`. Error{usage} that names `what`.
AMDAHL_API std::vector<int64_t> parse_count_list(std::string_view text, std::string_view what, int64_t minimum = 1);
/// 6885376 as "6,885,376".
AMDAHL_API std::string with_thousands(int64_t value);
/// Bytes as "27.5 MB" (decimal).
AMDAHL_API std::string format_bytes(double bytes);
/// Seconds as "1h05m", "1m20s", "1.5 s", "850 ms" or "12 us".
AMDAHL_API std::string format_duration(double seconds);
/// Text of unknown origin, made safe for a terminal: control characters and invalid UTF-8 become \xNN, and a text of
/// more than `longest` bytes is cut in the middle.
AMDAHL_API std::string printable(std::string_view text, size_t longest = std::string_view::npos);
/// The entry of `known` with the smallest edit distance to `word`; empty when none is close.
AMDAHL_API std::string nearest_name(std::string_view word, const std::vector<std::string>& known);
/// Remedy for an unknown name: "medium? or one of medium, large".
AMDAHL_API std::string choices_hint(std::string_view word, const std::vector<std::string>& known);

}  // namespace amdahl
