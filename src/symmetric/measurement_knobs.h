// For measurement, to be reverted: values of the collectives between GPUs that variables of the environment replace.
#pragma once

#include <cstdlib>
#include <string>

namespace amdahl {

/// AMDAHL_SYMM_<name>, or `value`.
inline long long knob(const char* name, long long value) {
  const char* text = std::getenv((std::string("AMDAHL_SYMM_") + name).c_str());
  return text ? std::atoll(text) : value;
}

}  // namespace amdahl
