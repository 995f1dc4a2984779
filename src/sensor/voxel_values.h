// What the values of voxels are, for every backend: order, fixed point, and where a mean keeps its sums.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

#include "sensor/sensor_ops.h"

namespace amdahl {

/// Orders floats as whole numbers: -0 before +0, NaN of either sign outermost.
constexpr int32_t float_order(float value) {
  const auto bits = std::bit_cast<int32_t>(value);
  return bits >= 0 ? bits : bits ^ 0x7fffffff;
}

/// The larger one; `most` when `value` is NaN.
constexpr float larger(float most, float value) {
  return value == value && float_order(value) > float_order(most) ? value : most;
}

/// What a maximum is in the grid: 0 where no point came, and +0 for a zero of either sign, because collectives of other
/// libraries do not say which zero of -0 and +0 is the larger one.
constexpr float final_max(float most) {
  return most == 0 || most == -std::numeric_limits<float>::infinity() ? 0.0f : most;
}

/// Mean of `count` numbers from their fixed-point sum; one rounding to double, one division, one rounding to float.
constexpr float fixed_point_mean(int64_t sum, int32_t count, double scale) {
  return static_cast<float>(static_cast<double>(sum) / (scale * count));
}

/// Where the CPU keeps what a grid of means or maxima is made of.
struct ValueMemory {
  void* sums = nullptr;         // of a mean: [V, F], f32 or i64; i64 [N, F] where there are slots
  int64_t* slots = nullptr;     // of a mean of fewer points than voxels: which voxel each row of sums is of, [N]
  int32_t* counts = nullptr;    // of a mean: [V]
  uint32_t* touched = nullptr;  // of a maximum that needs it: a bit for each voxel
};
/// In the output and the counts of a part; in the scratch memory where the caller does not ask for them.
ValueMemory value_memory(const VoxelizeProblem& problem);
/// Bytes of scratch that value_memory takes.
size_t value_scratch_bytes(const VoxelizeProblem& problem);

}  // namespace amdahl
