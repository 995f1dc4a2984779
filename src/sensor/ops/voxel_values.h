// Rules of voxel values for every backend: order of floats, fixed point, and the memory of a mean's sums.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

#include "sensor/ops/sensor_ops.h"

namespace amdahl {

/// Maps floats to integers in the same order: -0 before +0, NaN of either sign outermost.
constexpr int32_t float_order(float value) {
  const auto bits = std::bit_cast<int32_t>(value);
  return bits >= 0 ? bits : bits ^ 0x7fffffff;
}

/// The larger one; `most` when `value` is NaN.
constexpr float larger(float most, float value) {
  return value == value && float_order(value) > float_order(most) ? value : most;
}

/// The value of a maximum in the grid: 0 without points, and +0 for a zero of either sign, because collectives do not
/// define which of -0 and +0 is larger.
constexpr float final_max(float most) {
  return most == 0 || most == -std::numeric_limits<float>::infinity() ? 0.0f : most;
}

/// Mean of `count` numbers from their fixed-point sum: one rounding to double, one division, one rounding to float.
constexpr float fixed_point_mean(int64_t sum, int32_t count, double scale) {
  return static_cast<float>(static_cast<double>(sum) / (scale * count));
}

/// CPU memory of the intermediate results of means and maxima.
struct ValueMemory {
  void* sums = nullptr;         // mean: [V, F], f32 or i64; with slots i64 [N, F]
  int64_t* slots = nullptr;     // mean of fewer points than voxels: voxel of each row of sums, [N]
  int32_t* counts = nullptr;    // mean: [V]
  uint32_t* touched = nullptr;  // maximum, if needed: one bit per voxel
};
/// Sums and counts are in the output and counts of a partial problem, otherwise in scratch memory.
ValueMemory value_memory(const VoxelizeProblem& problem);
/// Scratch bytes of value_memory.
size_t value_scratch_bytes(const VoxelizeProblem& problem);

}  // namespace amdahl
