// With what readers append points to a PointCloud.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "amdahl/sensor.h"
#include "files/float_loss.h"

namespace amdahl {

/// Error{data_corrupt} when a file has too many features: each feature takes a name and one number per point.
inline void require_features(size_t count, const std::string& where) {
  constexpr size_t kMostFeatures = 500'000;
  if (count > kMostFeatures)
    throw Error(Cause::data_corrupt, fmt::format("{}: {} features of a point", where, count),
                fmt::format("at most {}", kMostFeatures));
}

/// Appends points to a cloud, and tells at its end which features lost digits by becoming floats.
class CloudRowWriter {
 public:
  CloudRowWriter(PointCloud& cloud, std::vector<std::string> feature_names)
      : cloud_(cloud), losses_(feature_names.size()) {
    cloud.feature_names = std::move(feature_names);
    cloud.num_features = static_cast<int64_t>(cloud.feature_names.size());
  }
  CloudRowWriter(const CloudRowWriter&) = delete;
  CloudRowWriter& operator=(const CloudRowWriter&) = delete;
  ~CloudRowWriter() {
    for (size_t i = 0; i < losses_.size(); ++i)
      if (losses_[i].is_visible())
        cloud_.feature_warnings.push_back(
            fmt::format("feature '{}' changes by up to {:.3g} by becoming floats, and differs by about {:.3g} from "
                        "point to point: subtract an offset in the file",
                        cloud_.feature_names[i], losses_[i].largest(), losses_[i].usual_step()));
  }

  /// `row` is [3 + F]: x, y, z and the features.
  void append(const double* row) {
    for (int axis = 0; axis < 3; ++axis) {
      const auto coordinate = static_cast<float>(row[axis]);
      if (std::isfinite(coordinate))
        cloud_.rounding = std::max(cloud_.rounding, std::abs(static_cast<double>(coordinate) - row[axis]));
      cloud_.points.push_back(coordinate);
    }
    for (size_t i = 0; i < losses_.size(); ++i) {
      losses_[i].add(row[3 + i]);
      cloud_.features.push_back(static_cast<float>(row[3 + i]));
    }
    ++cloud_.num_points;
  }

 private:
  PointCloud& cloud_;
  std::vector<FloatLoss> losses_;
};

}  // namespace amdahl
