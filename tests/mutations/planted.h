// The switch of the faults in faults.json, which are all in one build. The compiler includes this before every source.
#pragma once

#include <cstdlib>

/// Whether the environment chooses fault `number`: AMDAHL_FAULT=number.
inline bool planted(int number) {
  static const int chosen = [] {
    const char* const text = std::getenv("AMDAHL_FAULT");
    return text ? std::atoi(text) : 0;
  }();
  return chosen == number;
}
