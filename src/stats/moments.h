// The moments of a sample set that Welch's test and a Student t interval use.
#pragma once

#include <cstdint>
#include <span>

namespace amdahl {

struct Moments {
  int64_t n = 0;
  double mean = 0;
  double sd = 0;  // n - 1 in the denominator; 0 when n < 2
};
Moments moments_of(std::span<const double> samples);

}  // namespace amdahl
