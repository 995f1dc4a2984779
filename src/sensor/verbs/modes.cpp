#include "sensor/verbs/modes.h"

#include <fmt/format.h>

#include <algorithm>

#include "amdahl/error.h"
#include "sensor/measure/task.h"
#include "sensor/verbs/bench_setup.h"
#include "setup/backends.h"

namespace amdahl {
namespace {

/// The sensor operations belong to the device: the library for models may be missing.
std::unique_ptr<Fleet> fleet_of_engine(const SensorBenchConfig& config, int devices, const JobFacts& facts) {
  return make_fleet(config.engine, devices, facts, FleetNeeds::devices);
}

std::unique_ptr<Fleet> fleet_that_trains(const SensorBenchConfig& config, int devices, const JobFacts& facts) {
  return make_fleet(config.engine, devices, facts, FleetNeeds::math);
}

void require_one_operation(const SensorBenchConfig& config) {
  if (sensor_operations(config).size() > 1)
    throw Error(Cause::usage, fmt::format("`op` names several operations and `mode` {} takes one", config.mode),
                "`mode=task`, or one operation");
}

// ---- single and data ----

void check_single(const SensorBenchConfig& config) {
  require_one_operation(config);
  for (const int64_t count : config.devices)
    if (count != 1)
      throw Error(Cause::usage, fmt::format("`devices` is {} and `mode=single` uses one device", count), "`mode=data`");
}

std::vector<SensorStep> cell_steps(const SensorBenchConfig& config) {
  std::vector<SensorStep> steps;
  for (const std::vector<SensorCell>& group : sensor_cells(config)) {
    int most = 1;
    for (const SensorCell& cell : group) most = std::max(most, cell.devices);
    steps.push_back({workload_text(group.front().job), most,
                     [group](Fleet& fleet) {
                       for (const SensorCell& cell : group) require_room(fleet, cell, make_sensor_ops);
                     },
                     [group](Fleet& fleet, const SensorBenchSettings& settings) {
                       return measure_sensor_cells(fleet, group, settings);
                     }});
  }
  return steps;
}

// ---- task ----

/// One device comes first, as the baseline of the others.
std::vector<int64_t> counts_with_one(const SensorBenchConfig& config) {
  std::vector<int64_t> counts = config.devices.empty() ? default_device_counts(config.engine) : config.devices;
  std::erase(counts, 1);
  counts.insert(counts.begin(), 1);
  return counts;
}

std::vector<SensorStep> task_steps(const SensorBenchConfig& config) {
  std::vector<SensorStep> steps;
  TaskPlan plan;
  plan.tasks = sensor_jobs(config);
  plan.path = config.path;
  for (const int64_t devices : counts_with_one(config)) {
    plan.devices = static_cast<int>(devices);
    steps.push_back({fmt::format("{} tasks on {}", plan.tasks.size(), devices), plan.devices,
                     [plan](Fleet& fleet) { require_room(fleet, plan.tasks, plan.devices); },
                     [plan](Fleet& fleet, const SensorBenchSettings& settings) {
                       return measure_sensor_tasks(fleet, plan, settings);
                     }});
  }
  return steps;
}

void check_task(const SensorBenchConfig& config) {
  if (sensor_jobs(config).size() < 2)
    throw Error(Cause::usage, "`mode=task` has one task", "`op=fuse,voxelize`, or several sizes");
  if (config.cache != "hot")
    throw Error(Cause::usage, fmt::format("`cache` is {} and `mode=task` keeps its buffers", config.cache),
                "`cache=hot`");
}

}  // namespace

const std::vector<SensorMode>& sensor_modes() {
  static const std::vector<SensorMode> rows{
      {"single", check_single, cell_steps, fleet_of_engine},
      {"data", require_one_operation, cell_steps, fleet_of_engine},
      {"task", check_task, task_steps, fleet_of_engine},
      {"pipeline", check_pipeline, pipeline_steps, fleet_that_trains},
      {"hetero", check_hetero, hetero_steps, hetero_fleet},
  };
  return rows;
}

const SensorMode& find_sensor_mode(const std::string& name) {
  std::vector<std::string> names;
  for (const SensorMode& row : sensor_modes()) {
    if (row.name == name) return row;
    names.emplace_back(row.name);
  }
  throw Error(Cause::usage, fmt::format("`mode`: unknown value '{}'", printable(name, 40)), choices_hint(name, names));
}

}  // namespace amdahl
