// NaN and infinity.
#pragma once

#include <limits>

namespace amdahl {

inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
inline constexpr float kInfinity = std::numeric_limits<float>::infinity();

}  // namespace amdahl
