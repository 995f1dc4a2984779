// Lines of records.jsonl that belong together: each ends with a digest of itself and of the digest before it, so that a
// changed digit, a line that is missing, doubled or out of place, and a line of another run are seen.
//
//   {"type":"record",...,"chain":"9f86d081884c7d65"}      XXH3 of the previous line's 16 digits and of this line
//                                                         without its chain member
#pragma once

#include <string>
#include <string_view>

namespace amdahl {

class LineChain {
 public:
  /// The JSON object `line` with its chain member, as the next line of the chain.
  std::string link(std::string_view line);
  /// Whether `line` continues the chain; if so it is part of it.
  bool accept(std::string_view line);

 private:
  std::string last_;  // digits of the line before; empty at the first
};

/// Whether the line has a chain member, as lines of earlier versions do not.
bool is_chained(std::string_view line);

}  // namespace amdahl
