// Amdahl's law inverted: the serial fraction that explains the measured speedups.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "stats/bootstrap.h"

namespace amdahl {

/// e = (1/S - 1/n) / (1 - 1/n) of a speedup S > 0 on n >= 2 devices (Karp and Flatt 1990). 0 at S = n, 1 at S = 1.
double karp_flatt(double speedup, double devices);

/// A speedup on n >= 2 devices.
struct ScalingPoint {
  double devices = 2;
  double speedup = 1;
};
/// The f of Amdahl's law 1/S = f + (1 - f)/n with the least squared error in 1/S: with x = 1 - 1/n, f = sum x (1/S -
/// 1/n) / sum x^2. Needs at least one point. The result is not clamped to [0, 1].
double fit_serial_fraction(std::span<const ScalingPoint> points);

/// Step times of the same global batch on `devices` devices, one sample per run.
struct StepSamples {
  int64_t devices = 1;
  std::span<const double> step_us;
};
/// `several` must be ascending in devices, with at least two device counts and one run each. Leaves `cell` empty.
SerialFraction serial_fraction(std::span<const double> single_us, std::span<const StepSamples> several,
                               const BootstrapOptions& options = {});

}  // namespace amdahl
