// Test inputs of the sensor operations for all backends. Every case runs on the CPU and on the GPU, and is compared
// with the reference and between the two.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reference_sensor.h"

namespace amdahl::test {

struct FuseCase {
  std::string name;
  FuseInput input;
  /// Differences of adjacent samples overflow float; only `hold` defines this bit for bit.
  bool hold_only = false;
};
const std::vector<FuseCase>& fuse_cases();

struct TimesCase {
  std::string name;
  int64_t length = 0;
  std::vector<float> times;  // [B, S]
};
const std::vector<TimesCase>& times_cases();

struct Cloud {
  std::string name;
  VoxelGrid grid;
  std::vector<float> points;  // [N, 3]
  /// No point is near a voxel face, so that an approximate quotient has the same floor.
  bool clear_of_sides = false;
  int64_t num_points() const { return static_cast<int64_t>(points.size() / 3); }
};
const std::vector<Cloud>& clouds();
/// More points, and more per voxel, than a GPU thread block keeps locally. Too slow for tests without a GPU.
std::vector<Cloud> large_clouds();

/// Kinds of feature values.
enum class FeatureKind { normal, negative, uneven, signed_zero, tiny, not_finite };
std::string to_string(FeatureKind kind);
/// [N, F], different for every point and feature, before rounding to the type under test.
std::vector<double> features_of(int64_t num_points, int64_t num_features, FeatureKind kind, DType type);

/// One configuration of voxelizing a cloud.
struct VoxelRun {
  VoxelizeOptions options;
  DType type = DType::f32;
  int64_t num_features = 0;
  FeatureKind kind = FeatureKind::normal;
  int parts = 1;              // above 1: computed in parts that are merged and finished
  bool wants_counts = false;  // only for mean in one part
  int64_t skip_elements = 0;  // offset of points, features and output from an aligned address
  std::string name() const;
};
/// All combinations of the mode's options; widths, kinds of features and addresses alternate over the clouds.
std::vector<VoxelRun> voxel_runs(VoxelMode mode, size_t cloud);

inline constexpr DType kFloatTypes[] = {DType::f32, DType::bf16, DType::f16};
inline constexpr Extrapolation kRules[] = {Extrapolation::hold, Extrapolation::linear, Extrapolation::linear_right};
inline constexpr VoxelMode kVoxelModes[] = {VoxelMode::count, VoxelMode::occupancy, VoxelMode::bitmask, VoxelMode::mean,
                                            VoxelMode::max};

}  // namespace amdahl::test
