// The text output of `amdahl sensor` for the files it read.
#pragma once

#include <string>

#include "amdahl/sensor.h"

namespace amdahl {

std::string voxelize_text(const VoxelizeOutcome& outcome);
std::string timeline_text(const TimelineOutcome& outcome);

}  // namespace amdahl
