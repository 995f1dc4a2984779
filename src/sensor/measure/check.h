// Results of sensor jobs against a recomputation on the host that shares no code with the operations: a sample of rows
// or voxels, from inputs that are made anew.
#pragma once

#include <cstdint>
#include <string>

#include "sensor/measure/data.h"

namespace amdahl {

struct CheckResult {
  int64_t num_checked = 0;  // elements
  std::string fault;        // the first wrong one, with what it must be; empty when all are right
};

/// `output` is what `items` of the job give: rows of a fusion, or the grid of those points. count, occupancy, bitmask,
/// max and the deterministic mean must have the very bits; the f32 mean and interpolated values may differ by rounding.
CheckResult check_output(const SensorJob& job, ItemRange items, const void* output);

}  // namespace amdahl
