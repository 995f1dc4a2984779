// The sensor operations in plain loops over float64 values, written from the contract in amdahl/sensor.h alone. Results
// that the contract defines bit for bit are rounded to float after every operation: a sum, product or quotient of
// floats taken in float64 and then rounded is the one that float arithmetic gives.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "amdahl/sensor.h"

namespace amdahl::test {

/// Element i of an array of f32, bf16 or f16.
double decode(const void* data, DType type, int64_t i);
/// The values in that type, to nearest, ties to even, beyond its range to infinity.
std::vector<uint8_t> encode(const std::vector<double>& values, DType type);
/// The largest finite number of the type.
double largest_finite(DType type);

/// What an element of an output must be: bit for bit when the tolerance is 0 (any NaN is as good as another), else
/// within the tolerance, where infinity stands for what the type cannot hold.
struct Expected {
  double value = 0;
  double tolerance = 0;
};

struct StreamInput {
  int64_t length = 0, width = 0;  // S, D
  std::vector<double> data;       // [B, S, D], before it is rounded to the type under test
  std::vector<float> times;       // [B, S]
};

struct FuseInput {
  int64_t batch = 0, num_targets = 0;
  std::vector<StreamInput> streams;
  std::vector<float> targets;  // [B, T]
};

/// [B, T, sum of D], for data and output of that type.
std::vector<Expected> reference_fuse(const FuseInput& input, DType type, Extrapolation rule);

/// The first bad time as an index into [B, S], or -1.
struct TimesVerdict {
  int64_t index = -1;
  bool non_finite = false;
};
TimesVerdict reference_check_times(const std::vector<float>& times, int64_t length);

struct PointPlaces {
  std::vector<int64_t> voxel;  // of each point, by the layout; -1: in none
  int64_t num_nan = 0, num_outside = 0;
};
PointPlaces reference_places(const std::vector<float>& points, const VoxelGrid& grid, const VoxelizeOptions& options);

/// One element a voxel for count, occupancy and bitmask (0 or 1), else one a feature of a voxel. `features` are [N, F]
/// as the type under test holds them. `scale`: the one a deterministic mean was taken with.
std::vector<Expected> reference_voxels(const PointPlaces& places, const std::vector<double>& features,
                                       int64_t num_features, int64_t num_voxels, const VoxelizeOptions& options,
                                       double scale);

}  // namespace amdahl::test
