// Hash chain over the lines of records.jsonl: each line ends with a digest of itself and of the previous digest, so
// that a changed digit, a missing, duplicated or reordered line, and a line of another run are detected.
//
//   {"type":"record",...,"chain":"9f86d081884c7d65"}      XXH3 of the previous line's 16 digits and of this line
//                                                         without its chain member
#pragma once

#include <string>
#include <string_view>

namespace amdahl {

class LineChain {
 public:
  /// Returns the JSON object `line` with its chain member, and appends it to the chain.
  std::string link(std::string_view line);
  /// Whether `line` continues the chain; if so, the chain advances.
  bool accept(std::string_view line);

 private:
  std::string last_;  // digest of the previous line; empty before the first
};

/// Whether the line has a chain member; lines of version 0.1.0 and earlier have none.
bool is_chained(std::string_view line);

}  // namespace amdahl
