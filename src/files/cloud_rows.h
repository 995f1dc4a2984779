// Helpers with which readers append points to a PointCloud.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "amdahl/sensor_files.h"

namespace amdahl {

/// Error{data_corrupt} when a file has too many features: each feature takes a name and one number per point.
inline void require_features(size_t count, const std::string& where) {
  constexpr size_t kMostFeatures = 500'000;
  if (count > kMostFeatures)
    throw Error(Cause::data_corrupt, fmt::format("{}: {} features of a point", where, count),
                fmt::format("at most {}", kMostFeatures));
}

inline void set_features(PointCloud& cloud, std::vector<std::string> names) {
  cloud.feature_names = std::move(names);
  cloud.num_features = static_cast<int64_t>(cloud.feature_names.size());
}

/// `row` is [3 + F]: x, y, z and the features.
inline void append_point(PointCloud& cloud, const double* row) {
  for (int axis = 0; axis < 3; ++axis) {
    const auto coordinate = static_cast<float>(row[axis]);
    if (std::isfinite(coordinate))
      cloud.rounding = std::max(cloud.rounding, std::abs(static_cast<double>(coordinate) - row[axis]));
    cloud.points.push_back(coordinate);
  }
  for (int64_t i = 0; i < cloud.num_features; ++i) cloud.features.push_back(static_cast<float>(row[3 + i]));
  ++cloud.num_points;
}

}  // namespace amdahl
