// The modes of the sensor benchmark: how devices share the work.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "amdahl/sensor_bench.h"
#include "comm/job_facts.h"
#include "measure/fleet.h"
#include "measure/sensor/bench.h"

namespace amdahl {

/// What is measured at once.
struct SensorStep {
  std::string what;  // for progress
  int devices = 1;
  std::function<void(Fleet&)> require_room;  // Error{out_of_memory} where the specification already says no
  std::function<std::vector<Record>(Fleet&, const SensorBenchSettings&)> measure;
};

struct SensorMode {
  std::string_view name;
  /// Error{usage} for what the mode does not do.
  void (*check)(const SensorBenchConfig& config);
  std::vector<SensorStep> (*steps)(const SensorBenchConfig& config);
  std::unique_ptr<Fleet> (*make_fleet)(const SensorBenchConfig& config, int devices, const JobFacts& facts);
};
const std::vector<SensorMode>& sensor_modes();
/// Error{usage} with the nearest name.
const SensorMode& find_sensor_mode(const std::string& name);

}  // namespace amdahl
