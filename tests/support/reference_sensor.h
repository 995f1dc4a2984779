// The sensor operations as plain loops over float64 values, implemented only from the contract in amdahl/sensor.h.
// Results that the contract defines bit for bit are rounded to float after every operation: a sum, product or quotient
// of floats computed in float64 and then rounded equals the result of float arithmetic.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "amdahl/sensor.h"

namespace amdahl::test {

/// Element i of an array of f32, bf16 or f16.
double decode(const void* data, DType type, int64_t i);
/// Converts values to that type: round to nearest, ties to even, overflow to infinity.
std::vector<uint8_t> encode(const std::vector<double>& values, DType type);
/// The largest finite number of the type.
double largest_finite(DType type);

/// Expected output element: with tolerance 0 bit for bit (any NaN matches any NaN), otherwise within the tolerance,
/// where infinity also represents values beyond the type's range.
struct Expected {
  double value = 0;
  double tolerance = 0;
};

struct StreamInput {
  int64_t length = 0, width = 0;  // S, D
  std::vector<double> data;       // [B, S, D], before rounding to the type under test
  std::vector<float> times;       // [B, S]
};

struct FuseInput {
  int64_t batch = 0, num_targets = 0;
  std::vector<StreamInput> streams;
  std::vector<float> targets;  // [B, T]
};

/// Returns [B, T, sum of D], for data and output of that type.
std::vector<Expected> reference_fuse(const FuseInput& input, DType type, Extrapolation rule);

/// The first invalid time as an index into [B, S], or -1.
struct TimesVerdict {
  int64_t index = -1;
  bool non_finite = false;
};
TimesVerdict reference_check_times(const std::vector<float>& times, int64_t length);

struct PointPlaces {
  std::vector<int64_t> voxel;  // voxel index of each point in the layout; -1: none
  int64_t num_nan = 0, num_outside = 0;
};
PointPlaces reference_places(const std::vector<float>& points, const VoxelGrid& grid, const VoxelizeOptions& options);

/// One element per voxel for count, occupancy and bitmask (0 or 1), otherwise one per feature and voxel. `features` are
/// [N, F] as represented in the type under test. `scale`: the scale used by a deterministic mean.
std::vector<Expected> reference_voxels(const PointPlaces& places, const std::vector<double>& features,
                                       int64_t num_features, int64_t num_voxels, const VoxelizeOptions& options,
                                       double scale);

}  // namespace amdahl::test
