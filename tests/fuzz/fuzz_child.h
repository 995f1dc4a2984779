// Runs a target in a child process, so that whatever an input does to it is seen and the input is kept.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "targets.h"

namespace amdahl::fuzz {

struct Limits {
  uint64_t inputs = 0;
  double seconds = 0;  // of the whole run; 0: none
};

struct Outcome {
  uint64_t inputs = 0, accepted = 0;
  double seconds = 0;
  std::string defect;  // empty: none
  std::string input;   // of the defect
};

/// Parses what `next` gives, one input after the other, until a limit or the first defect.
Outcome run_in_child(const Target& target, const std::function<std::string()>& next, const Limits& limits);

}  // namespace amdahl::fuzz
