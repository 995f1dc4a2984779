// Turns records of kind "sensor" into the results of one side of a comparison.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "sensor/report/compare.h"
#include "stats/estimate.h"

namespace amdahl {

/// Axes that two results must share to be the same work; voxel_mode and model (of the training fed by the fused data)
/// only when present.
inline constexpr const char* kWorkloadAxes[] = {"op", "voxel_mode", "dtype", "workload", "cache", "launch", "model"};

/// One configuration of one run with its records pooled. `row` has no statistics yet.
struct SensorResult {
  SensorRow row;
  const Record* record = nullptr;  // first pooled record, for error messages; owned by the caller
  std::map<std::string, AxisValue> workload;
  std::string unit;  // of throughput
  int64_t devices = 0;
  int64_t items = 0;    // per call, over all devices
  std::string scaling;  // "strong", "weak", or empty
  double work = 0;      // items of a call in the unit of throughput, as recorded: throughput x time
  std::vector<double> time_us;

  Estimate throughput() const { return scaled(rate_of(work, estimate_of(time_us)), 1e6); }
};

/// The results in `runs` that belong to the side `role`; `notes` names the rest, unless another side of `sides`
/// includes the same run and takes it. Error{usage} when a run is given twice or no run has a result,
/// Error{store_corrupt} for a record that lacks an axis or a series.
std::vector<SensorResult> results_on(const std::vector<SensorRun>& runs, SensorRow::Role role, const SensorSides& sides,
                                     std::vector<std::string>& notes);

/// "voxelize mean f32 p500000 128x128x128 f8 hot graph".
std::string format_workload(const std::map<std::string, AxisValue>& workload);

/// Appends a note unless it is there already.
void add_note(std::vector<std::string>& notes, const std::string& note);

}  // namespace amdahl
