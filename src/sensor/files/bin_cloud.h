// Point clouds in .bin files, which have no header: rows of little-endian floats or doubles.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "amdahl/sensor.h"

namespace amdahl {

/// The layout is that of the options, else the one that the name says, else KITTI's, four floats. A guessed layout is
/// refused where the size or the numbers speak against it: Error{data_corrupt} with the options that would read the
/// file. Error{usage} for options out of range.
PointCloud parse_bin_cloud(std::string_view bytes, const std::string& path, const SensorFileOptions& options);

/// Why the bytes do not look like rows of `columns` floats, and the options that would read them; empty when they do or
/// when there are too few to tell.
struct LayoutDoubt {
  std::string what, remedy;
};
LayoutDoubt doubt_layout(std::string_view bytes, int64_t columns);

}  // namespace amdahl
