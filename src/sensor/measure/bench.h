// Times of a sensor job on one or several devices, and the Records of them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "amdahl/plan.h"
#include "amdahl/record.h"
#include "measure/fleet.h"
#include "measure/sampling/call_queue.h"
#include "sensor/measure/workload.h"

namespace amdahl {

/// One Record's worth: a job on so many devices, and how.
struct SensorCell {
  SensorJob job;  // of all devices together
  std::string mode = "single";
  int devices = 1;
  Scaling scaling = Scaling::strong;  // of mode data
  MergeMethod merge = MergeMethod::none;
  bool peers_if_reached = false;  // masks and counts in bytes go through peers' memory where all reach each other's
  std::string path = "direct";
  bool cold = false;
};

struct SensorBenchSettings {
  int samples = 30;
  int calls = 20;              // of a sample
  double least_sample_us = 0;  // where no graph holds them, as many more calls as it takes for a sample to last so long
  double timeout_seconds = 60;
  MakeSensorOps make_ops = nullptr;
  MakeTransfer make_transfer = nullptr;
  Provenance provenance;
};

/// Calls of a sample where no graph holds them, of calls that take so many us.
int calls_of_sample(const SensorBenchSettings& settings, double call_us);

/// What one rank measured, or why it could not.
struct SensorTimes {
  std::string error;
  std::string launch;              // "graph" or "eager"
  double checked = 0;              // elements of the result
  uint64_t digest = 0;             // of the result
  std::vector<double> time_us;     // per call, a sample each
  std::vector<double> call_us;     // host clock: one call until it is done
  std::vector<double> compute_us;  // of one call: the rank's own part
  std::vector<double> merge_us;    // of the same call: from there to its end
  double warmup_calls = 0, warmup_settled = 0;
  double items = 0;          // of this rank
  double calls = 0;          // of a sample of time_us, at least
  double memory_bytes = 0;   // at its peak
  double copies = 1;         // of the buffers, which calls go round
  double copied_bytes = 0;   // of all copies together
  double copies_capped = 0;  // 1: more would be needed to leave the cache
  // Of the card, negative where the device does not say.
  double utilisation_percent = -1;
  double clock_before_mhz = -1, clock_after_mhz = -1;
  double temperature_c = -1, power_w = -1, throttle_reasons = -1;
};

/// All ranks' times by rank; `error` of any rank is that of the whole.
using SensorExchange = std::vector<SensorTimes>;

/// Error{out_of_memory} with what the cell needs and what there is, when a device is too small for it by its
/// specification. Allocates nothing.
void require_room(Fleet& fleet, const SensorCell& cell, MakeSensorOps make_ops);

/// Modes single and data: measures the cell on the fleet's first devices. A cell that does not fit becomes a failed
/// Record. The Record is only of use on the root process.
Record measure_sensor_cell(Fleet& fleet, const SensorCell& cell, const SensorBenchSettings& settings);
/// The same of cells that will be compared, in turns: each once with half of its samples, then again in reverse order,
/// so that drift of the machine hits all alike.
std::vector<Record> measure_sensor_cells(Fleet& fleet, const std::vector<SensorCell>& cells,
                                         const SensorBenchSettings& settings);

/// Axes that every mode shares; `launch` and what a mode adds come later.
Record start_sensor_record(const SensorCell& cell, const Provenance& provenance);
/// Series and status from what all ranks measured.
void fill_sensor_record(Record& record, const SensorCell& cell, const SensorExchange& ranks);

}  // namespace amdahl
