#include "sensor/verbs/modes.h"

#include <fmt/format.h>

#include <algorithm>

#include "amdahl/error.h"
#include "comm/world.h"
#include "sensor/measure/hetero.h"
#include "sensor/measure/placement.h"
#include "sensor/measure/task.h"
#include "sensor/verbs/bench_setup.h"
#include "setup/backends.h"

namespace amdahl {
namespace {

bool shares_one_job(const SensorBenchConfig& config) { return sensor_operations(config).size() == 1; }

/// Device counts, including the CPU device: by default all GPUs, or two virtual devices.
std::vector<int> device_counts(const SensorBenchConfig& config) {
  std::vector<int64_t> counts = config.devices;
  if (counts.empty()) counts = {default_device_counts(config.engine).back()};
  std::vector<int> all;
  for (const int64_t count : counts) all.push_back(static_cast<int>(count) + (config.cpu_share ? 1 : 0));
  return all;
}

void check_sm_limits(const SensorBenchConfig& config, int devices) {
  std::vector<bool> named(static_cast<size_t>(devices));
  for (const SmLimit& limit : config.limit_sms) {
    if (limit.device < 0 || limit.device >= devices)
      throw Error(Cause::usage,
                  fmt::format("`limit_sms` names device {} and the devices are 0 to {}", limit.device, devices - 1),
                  "more `devices`, or one of these");
    if (!(limit.fraction > 0 && limit.fraction <= 1))
      throw Error(Cause::usage, fmt::format("`limit_sms` of device {} is {}", limit.device, limit.fraction),
                  "a fraction above 0, at most 1");
    if (named[static_cast<size_t>(limit.device)])
      throw Error(Cause::usage, fmt::format("`limit_sms` names device {} twice", limit.device), "each device once");
    named[static_cast<size_t>(limit.device)] = true;
  }
}

std::vector<std::string> policies_of(const SensorBenchConfig& config) {
  if (!config.policies.empty()) return config.policies;
  std::vector<std::string> all;
  if (shares_one_job(config)) {
    for (const SharePolicy& policy : share_policies()) all.emplace_back(policy.name);
  } else {
    for (const PlacementPolicy& policy : placement_policies()) all.emplace_back(policy.name);
  }
  return all;
}

std::vector<double> speeds_of(const SensorBenchConfig& config, int devices) {
  std::vector<double> speeds(static_cast<size_t>(devices), 1.0);
  for (const SmLimit& limit : config.limit_sms) speeds[static_cast<size_t>(limit.device)] = limit.fraction;
  return speeds;
}

SensorStep share_step(const SensorBenchConfig& config, const SensorJob& job, int devices) {
  HeteroPlan plan;
  plan.job = job;
  plan.devices = devices;
  plan.policies = policies_of(config);
  plan.speeds = speeds_of(config, devices);
  plan.meet = config.cpu_share || config.merge == "host" ? PartsMeet::host : PartsMeet::communicator;
  plan.path = config.path;
  return {fmt::format("{} on {}", workload_text(job), devices), devices,
          [plan](Fleet& fleet) { require_room(fleet, {plan.job}, plan.devices); },
          [plan](Fleet& fleet, const SensorBenchSettings& settings) {
            return measure_sensor_shares(fleet, plan, settings);
          }};
}

SensorStep placement_step(const SensorBenchConfig& config, int devices) {
  TaskPlan plan;
  plan.tasks = sensor_jobs(config);
  plan.mode = "hetero";
  plan.devices = devices;
  plan.policies = policies_of(config);
  plan.speeds = speeds_of(config, devices);
  plan.path = config.path;
  return {fmt::format("{} tasks on {}", plan.tasks.size(), devices), devices,
          [plan](Fleet& fleet) { require_room(fleet, plan.tasks, plan.devices); },
          [plan](Fleet& fleet, const SensorBenchSettings& settings) {
            return measure_sensor_tasks(fleet, plan, settings);
          }};
}

void check_policies(const SensorBenchConfig& config) {
  for (const std::string& name : policies_of(config))
    if (shares_one_job(config))
      find_share_policy(name);
    else
      find_placement_policy(name);
}

void check_work(const SensorBenchConfig& config) {
  for (const SensorJob& job : sensor_jobs(config))
    if (job.num_items == 0) throw Error(Cause::usage, "`points` is 0: nothing to share", "`points=500000`");
  if (config.merge == "none" || config.merge == "collective" || config.merge == "bitmask" || config.merge == "peer")
    throw Error(Cause::usage, fmt::format("`merge` {} with `mode=hetero`", config.merge), "`merge=auto` or host");
  if (config.cache != "hot")
    throw Error(Cause::usage, fmt::format("`cache` is {} and `mode=hetero` keeps its buffers", config.cache),
                "`cache=hot`");
}

}  // namespace

void check_hetero(const SensorBenchConfig& config) {
  check_policies(config);
  check_work(config);
  if (detect_launch(config.engine.environment).multi_process())
    throw Error(Cause::usage, "`mode=hetero` drives all devices from one process", "no launcher");
  if (config.cpu_share && choose_backend(config.engine, FleetNeeds::devices).name == "cpu")
    throw Error(Cause::usage, "`cpu_share`: all devices are the CPU's already", "`limit_sms=1,0.5`, or GPUs");
  for (const int devices : device_counts(config)) {
    if (devices < 2)
      throw Error(Cause::usage, "`mode=hetero` has one device", "`devices=2`, or `cpu_share` beside a GPU");
    check_sm_limits(config, devices);
  }
}

std::vector<SensorStep> hetero_steps(const SensorBenchConfig& config) {
  std::vector<SensorStep> steps;
  for (const int devices : device_counts(config)) {
    if (!shares_one_job(config)) {
      steps.push_back(placement_step(config, devices));
      continue;
    }
    for (const SensorJob& job : sensor_jobs(config)) steps.push_back(share_step(config, job, devices));
  }
  return steps;
}

std::unique_ptr<Fleet> hetero_fleet(const SensorBenchConfig& config, int devices, const JobFacts& facts) {
  const bool gpus = choose_backend(config.engine, FleetNeeds::devices).name == "cuda";
  if (!gpus || (config.limit_sms.empty() && !config.cpu_share))
    return make_fleet(config.engine, devices, facts, FleetNeeds::devices);
  HeterogeneousDevices wanted;
  wanted.num_gpus = devices - (config.cpu_share ? 1 : 0);
  wanted.cpu_share = config.cpu_share;
  wanted.sm_shares = speeds_of(config, devices);
  return make_heterogeneous_fleet(config.engine, wanted);
}

}  // namespace amdahl
