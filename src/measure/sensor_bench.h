// Times of a sensor job on one or several devices, and the Records of them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "amdahl/amdahl.h"
#include "measure/fleet.h"
#include "measure/sensor_workload.h"

namespace amdahl {

/// One Record's worth: a job on so many devices, and how.
struct SensorCell {
  SensorJob job;  // of all devices together
  std::string mode = "single";
  int devices = 1;
  Scaling scaling = Scaling::strong;  // of mode data
  MergeWay merge = MergeWay::none;
  std::string path = "direct";
  bool cold = false;
};

struct SensorBenchSettings {
  int samples = 30;
  int calls = 20;  // of a sample
  double timeout_seconds = 60;
  MakeSensorOps make_ops = nullptr;
  Provenance provenance;
};

/// What one rank measured, or why it could not.
struct SensorTimes {
  std::string trouble;
  std::string launch;               // "graph" or "eager"
  double checked = 0;               // elements of the result
  uint64_t digest = 0;              // of the result
  std::vector<double> time_us;      // per call, a sample each
  std::vector<double> call_us;      // host clock: one call until it is done
  std::vector<double> compute_us;   // of one call: the rank's own part
  std::vector<double> merge_us;     // of the same call: from there to its end
  double items = 0;                 // of this rank
  double memory_bytes = 0;          // at its peak
  double utilisation_percent = -1;  // negative where the device does not say
};

/// All ranks' times by rank; `trouble` of any rank is that of the whole.
using SensorExchange = std::vector<SensorTimes>;

/// Modes single and data: measures the cell on the fleet's first devices. A cell that does not fit becomes a failed
/// Record. The Record is only of use on the root process.
Record measure_sensor_cell(Fleet& fleet, const SensorCell& cell, const SensorBenchSettings& settings);

/// Axes that every mode shares; `launch` and what a mode adds come later.
Record start_sensor_record(const SensorCell& cell, const Provenance& provenance);
/// Series and status from what all ranks measured.
void fill_sensor_record(Record& record, const SensorCell& cell, const SensorExchange& ranks);

}  // namespace amdahl
