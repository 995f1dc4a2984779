// The table of inputs that the sensor operations of every backend are tested on. A case added here is run on the CPU
// and on the GPU, against the reference and against each other.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reference_sensor.h"

namespace amdahl::test {

struct FuseCase {
  std::string name;
  FuseInput input;
  /// Differences of neighbours overflow float, which only `hold` defines bit for bit.
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
  /// No point lies near the side of a voxel, so that an approximate quotient has the same floor.
  bool clear_of_sides = false;
  int64_t num_points() const { return static_cast<int64_t>(points.size() / 3); }
};
const std::vector<Cloud>& clouds();
/// More points, and more in a voxel, than what a GPU's block of threads keeps to itself. Too slow for tests without
/// one.
std::vector<Cloud> large_clouds();

/// What the features of a cloud are like.
enum class FeatureKind { normal, negative, uneven, signed_zero, tiny, not_finite };
std::string to_string(FeatureKind kind);
/// [N, F] that differ in the point and the feature, before they are rounded to the type under test.
std::vector<double> features_of(int64_t num_points, int64_t num_features, FeatureKind kind, DType type);

/// One way to voxelize a cloud.
struct VoxelRun {
  VoxelizeOptions options;
  DType type = DType::f32;
  int64_t num_features = 0;
  FeatureKind kind = FeatureKind::normal;
  int parts = 1;              // more: in parts that are merged and finished
  bool wants_counts = false;  // mean of one part
  int64_t skip_elements = 0;  // of points, features and output behind an aligned address
  std::string name() const;
};
/// Every combination of what the mode knows; widths, kinds of features and addresses take turns over the clouds.
std::vector<VoxelRun> voxel_runs(VoxelMode mode, size_t cloud);

inline constexpr DType kFloatTypes[] = {DType::f32, DType::bf16, DType::f16};
inline constexpr Extrapolation kRules[] = {Extrapolation::hold, Extrapolation::linear, Extrapolation::linear_right};
inline constexpr VoxelMode kVoxelModes[] = {VoxelMode::count, VoxelMode::occupancy, VoxelMode::bitmask, VoxelMode::mean,
                                            VoxelMode::max};

}  // namespace amdahl::test
