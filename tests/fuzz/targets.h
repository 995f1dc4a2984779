// The parsers that are fuzzed: each takes the bytes of a file.
#pragma once

#include <span>
#include <string_view>

namespace amdahl::fuzz {

struct Target {
  std::string_view name;
  /// Parses the bytes. Throws amdahl::Error for what it refuses; anything else that is thrown is a defect.
  void (*parse)(std::string_view bytes);
};

std::span<const Target> targets();
/// Null when there is no such target.
const Target* find_target(std::string_view name);

}  // namespace amdahl::fuzz
