// Amdahl's law inverted: the serial fraction that explains the measured speedups.
#pragma once

#include <cstdint>
#include <span>

#include "amdahl/summary.h"

namespace amdahl {

/// e = (1/S - 1/n) / (1 - 1/n) of a speedup S > 0 on n >= 2 devices (Karp and Flatt 1990). 0 at S = n, 1 at S = 1.
double karp_flatt(double speedup, double devices);

/// Step times of the same global batch on `devices` devices, and their speedup over one device.
struct StepSamples {
  int64_t devices = 1;
  Estimate step_us, speedup;
};
/// `several` must be ascending in devices, with at least two device counts. Leaves `cell` empty.
SerialFraction serial_fraction(const Estimate& single_us, std::span<const StepSamples> several);

}  // namespace amdahl
