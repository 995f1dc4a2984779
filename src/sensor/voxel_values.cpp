#include "sensor/voxel_values.h"

#include <algorithm>
#include <cmath>

namespace amdahl {
namespace {

bool mean_of(const VoxelizeProblem& problem) { return problem.options.mode == VoxelMode::mean; }

/// Sums that the output cannot hold.
size_t scratch_sum_bytes(const VoxelizeProblem& problem) {
  if (!mean_of(problem) || problem.partial || !problem.options.deterministic) return 0;
  return static_cast<size_t>(num_voxels(problem.grid) * problem.num_features) * sizeof(int64_t);
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
  const bool fixed_point = mean_of(problem) && problem.partial && problem.options.deterministic;
  return voxels * static_cast<size_t>(problem.num_features) * (fixed_point ? sizeof(int64_t) : sizeof(float));
}

MeanMemory mean_memory(const VoxelizeProblem& problem) {
  auto* scratch = static_cast<char*>(problem.scratch);
  MeanMemory memory{problem.output, problem.counts};
  const size_t sum_bytes = scratch_sum_bytes(problem);
  if (sum_bytes > 0) memory.sums = scratch;
  if (!memory.counts) memory.counts = reinterpret_cast<int32_t*>(scratch + sum_bytes);
  return memory;
}

size_t mean_scratch_bytes(const VoxelizeProblem& problem) {
  if (!mean_of(problem)) return 0;
  const size_t counts = problem.counts ? 0 : static_cast<size_t>(num_voxels(problem.grid)) * sizeof(int32_t);
  return scratch_sum_bytes(problem) + counts;
}

float fixed_point_scale_of(float largest, int64_t num_points) {
  constexpr int kSumBits = 62, kLeast = -126, kMost = 127;
  if (!(largest > 0)) return std::ldexp(1.0f, kMost);  // leaves the scale to parts that have values
  const int value_bits = std::ilogb(largest) + 1;
  const int count_bits = std::ilogb(static_cast<double>(std::max<int64_t>(num_points, 1))) + 1;
  return std::ldexp(1.0f, std::clamp(kSumBits - value_bits - count_bits, kLeast, kMost));
}

}  // namespace amdahl
