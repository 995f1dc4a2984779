// Sizes, counts and their text forms. All functions are thread-safe.
//
// Example:
//   const int64_t bytes = amdahl::parse_whole("32M", amdahl::Unit::bytes, "buffer");  // 33554432
//   std::puts(amdahl::format_bytes(bytes).c_str());                   // 33.6 MB
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "amdahl/error.h"

namespace amdahl {

/// What a number means, and with it the suffixes that it may have:
///   number    -1.5, without suffixes
///   count     54403, 54,403, 250k or 6.9M; multiples are decimal
///   bytes     8, 32M (2^25, binary as in nccl-tests) or 1GiB
///   seconds   90, 500ms, 90s, 5m or 1h
///   fraction  0.01 or 1%
///   percent   3 or 3%
///   rate      230 or 230GB/s; in GB/s
enum class Unit { number, count, bytes, seconds, fraction, percent, rate };

/// Parses a number of that unit, suffixes in any case. Error{usage} that names `what` and proposes a value near `text`.
AMDAHL_API double parse_quantity(std::string_view text, Unit unit, std::string_view what);
/// The same for whole numbers of at least 0. A suffix makes a whole number of a fraction: 0.3k is 300.
AMDAHL_API int64_t parse_whole(std::string_view text, Unit unit, std::string_view what);
/// Parses "1,2,4", "1..8x2" (1,2,4,8), "0..3" or "500k,1M" to integers of at least `minimum`. Error{usage} that names
/// `what`.
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
