// From records of kind "sensor" to the results of one side of a comparison.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "report/sensor/compare.h"

namespace amdahl {

/// What two results must share to be about the same work; voxel_mode, and the model that is trained on what was fused,
/// only where there is one.
inline constexpr const char* kWorkloadAxes[] = {"op", "voxel_mode", "dtype", "workload", "cache", "launch", "model"};

/// One configuration of one run, its records pooled. The row has no statistics yet.
struct SensorResult {
  SensorRow row;
  const Record* record = nullptr;  // the first of those pooled, for errors; the caller's
  std::map<std::string, AxisValue> workload;
  std::string unit;  // of throughput
  int64_t devices = 0;
  int64_t items = 0;    // of all devices together, per call
  std::string scaling;  // "strong", "weak", or empty
  std::vector<double> time_us, throughput;
};

/// What `runs` measured that belongs to the side `role`; the rest is named in `notes`, unless `sides` has the run in
/// the side that takes it. Error{usage} when runs are given twice or have no result, Error{store_corrupt} for a record
/// that lacks an axis or a series.
std::vector<SensorResult> results_on(const std::vector<SensorRun>& runs, SensorRow::Role role, const SensorSides& sides,
                                     std::vector<std::string>& notes);

/// "voxelize mean f32 p500000 128x128x128 f8 hot graph".
std::string format_workload(const std::map<std::string, AxisValue>& workload);

/// Appends a note that is not there yet.
void add_note(std::vector<std::string>& notes, const std::string& note);

}  // namespace amdahl
