#include "sensor/ops/voxel_values.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace amdahl {
namespace {

/// Whether the sums are in fixed point and do not fit into the output.
bool sums_apart(const VoxelizeProblem& problem) { return is_fixed_point(problem) && !problem.partial; }
/// Whether sums are stored per occupied voxel, which takes less memory; the grid holds the slot number in place of a
/// float.
bool sums_by_slot(const VoxelizeProblem& problem) {
  return sums_apart(problem) && problem.num_points < num_voxels(problem.grid) &&
         problem.num_points <= std::numeric_limits<int32_t>::max();
}
size_t sum_bytes(const VoxelizeProblem& problem) {
  if (!sums_apart(problem)) return 0;
  const int64_t rows = sums_by_slot(problem) ? problem.num_points : num_voxels(problem.grid);
  return static_cast<size_t>(rows * problem.num_features) * sizeof(int64_t);
}
/// Not 0 if there are slots, even without points, so that `slots` is not null.
size_t slot_bytes(const VoxelizeProblem& problem) {
  return sums_by_slot(problem) ? static_cast<size_t>(std::max<int64_t>(problem.num_points, 1)) * sizeof(int64_t) : 0;
}
/// Whether empty voxels differ from the initial value of a maximum.
bool marks_touched(const VoxelizeProblem& problem) {
  return problem.options.mode == VoxelMode::max && !problem.partial && !problem.options.zero_floor;
}

}  // namespace

int64_t num_voxels(const VoxelGrid& grid) { return grid.size[0] * grid.size[1] * grid.size[2]; }

int64_t num_mask_words(const VoxelGrid& grid) { return (num_voxels(grid) + 31) / 32; }

size_t voxelize_output_bytes(const VoxelizeProblem& problem) {
  const auto voxels = static_cast<size_t>(num_voxels(problem.grid));
  switch (problem.options.mode) {
    case VoxelMode::count:
      return problem.most_in_byte > 0 ? voxels : voxels * sizeof(int32_t);
    case VoxelMode::occupancy:
      return voxels * sizeof(int32_t);
    case VoxelMode::bitmask:
      return static_cast<size_t>(num_mask_words(problem.grid)) * sizeof(uint32_t);
    case VoxelMode::mean:
    case VoxelMode::max:
      break;
  }
  const bool fixed_point = is_fixed_point(problem) && problem.partial;
  return voxels * static_cast<size_t>(problem.num_features) * (fixed_point ? sizeof(int64_t) : sizeof(float));
}

ValueMemory value_memory(const VoxelizeProblem& problem) {
  auto* scratch = static_cast<char*>(problem.scratch);
  ValueMemory memory;
  if (marks_touched(problem)) memory.touched = static_cast<uint32_t*>(problem.scratch);
  if (!is_mean(problem)) return memory;
  memory.sums = sums_apart(problem) ? scratch : problem.output;
  if (sums_by_slot(problem)) memory.slots = reinterpret_cast<int64_t*>(scratch + sum_bytes(problem));
  memory.counts =
      problem.counts ? problem.counts : reinterpret_cast<int32_t*>(scratch + sum_bytes(problem) + slot_bytes(problem));
  return memory;
}

size_t value_scratch_bytes(const VoxelizeProblem& problem) {
  if (marks_touched(problem)) return static_cast<size_t>(num_mask_words(problem.grid)) * sizeof(uint32_t);
  if (!is_mean(problem)) return 0;
  const size_t counts = problem.counts ? 0 : static_cast<size_t>(num_voxels(problem.grid)) * sizeof(int32_t);
  return sum_bytes(problem) + slot_bytes(problem) + counts;
}

float fixed_point_scale_of(float largest, int64_t num_points) {
  constexpr int kSumBits = 62, kLeast = -126, kMost = 127;
  if (!(largest > 0)) return std::ldexp(1.0f, kMost);  // the minimum over parts then ignores this one
  const int value_bits = std::ilogb(largest) + 1;
  const int count_bits = std::ilogb(static_cast<double>(std::max<int64_t>(num_points, 1))) + 1;
  return std::ldexp(1.0f, std::clamp(kSumBits - value_bits - count_bits, kLeast, kMost));
}

}  // namespace amdahl
