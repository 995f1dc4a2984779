// Names of the enumerations in amdahl/sensor.h, as in options and records.
#include "amdahl/sensor.h"

namespace amdahl {

std::string_view to_string(Extrapolation rule) {
  switch (rule) {
    case Extrapolation::hold:
      return "hold";
    case Extrapolation::linear:
      return "linear";
    case Extrapolation::linear_right:
      return "linear-right";
  }
  return "?";
}

std::string_view to_string(VoxelMode mode) {
  switch (mode) {
    case VoxelMode::count:
      return "count";
    case VoxelMode::occupancy:
      return "occupancy";
    case VoxelMode::bitmask:
      return "bitmask";
    case VoxelMode::mean:
      return "mean";
    case VoxelMode::max:
      return "max";
  }
  return "?";
}

std::string_view to_string(VoxelLayout layout) { return layout == VoxelLayout::xyz ? "xyz" : "zyx"; }

}  // namespace amdahl
