// The modes of the sensor benchmark: how work is divided among devices.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "amdahl/sensor.h"
#include "comm/job_facts.h"
#include "measure/fleet.h"
#include "sensor/measure/bench.h"

namespace amdahl {

/// One measurement step of a mode.
struct SensorStep {
  std::string what;  // label for progress
  int devices = 1;
  std::function<void(Fleet&)> require_room;  // Error{out_of_memory} when the device specification already rules it out
  std::function<std::vector<Record>(Fleet&, const SensorBenchSettings&)> measure;
};

struct SensorMode {
  std::string_view name;
  /// Error{usage} for options that the mode does not support.
  void (*check)(const SensorBenchConfig& config);
  std::vector<SensorStep> (*steps)(const SensorBenchConfig& config);
  std::unique_ptr<Fleet> (*make_fleet)(const SensorBenchConfig& config, int devices, const JobFacts& facts);
};
const std::vector<SensorMode>& sensor_modes();
/// Error{usage} with the nearest name for an unknown mode.
const SensorMode& find_sensor_mode(const std::string& name);

void check_hetero(const SensorBenchConfig& config);
std::vector<SensorStep> hetero_steps(const SensorBenchConfig& config);
/// `devices` includes the CPU device.
std::unique_ptr<Fleet> hetero_fleet(const SensorBenchConfig& config, int devices, const JobFacts& facts);

void check_pipeline(const SensorBenchConfig& config);
std::vector<SensorStep> pipeline_steps(const SensorBenchConfig& config);

}  // namespace amdahl
