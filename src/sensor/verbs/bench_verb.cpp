// The sensor benchmark: cells of a configuration, records, tables.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "amdahl/sensor.h"
#include "sensor/verbs/bench_input.h"
#include "sensor/verbs/bench_setup.h"
#include "sensor/verbs/modes.h"
#include "setup/backends.h"
#include "setup/failure_watch.h"
#include "setup/fresh_processes.h"
#include "setup/provenance.h"
#include "setup/training_setup.h"
#include "spec/run_folder.h"

namespace amdahl {
namespace {

/// The header fields of a run folder.
std::map<std::string, std::string> identity(const SensorBenchConfig& config) {
  std::map<std::string, std::string> facts{
      {"op", config.op},     {"mode", config.mode},   {"dtype", std::string(to_string(config.type))},
      {"path", config.path}, {"cache", config.cache}, {"samples", std::to_string(config.samples)}};
  for (const auto& [name, value] : input_facts(config)) facts[name] = value;
  if (config.mode == "data") facts["scaling"] = to_string(config.scaling);
  return facts;
}

/// What must be equal on all ranks of a launched job.
JobFacts job_facts(const SensorBenchConfig& config) {
  std::string streams, modes;
  for (const StreamShape& stream : config.streams) streams += fmt::format("{}x{} ", stream.length, stream.width);
  for (const VoxelMode voxel_mode : config.voxel_modes) modes += fmt::format("{} ", to_string(voxel_mode));
  JobFacts facts = identity(config);
  facts.insert({{"command", "sensor bench"},
                {"devices", fmt::format("{}", fmt::join(config.devices, ","))},
                {"scaling", std::string(to_string(config.scaling))},
                {"batch_sizes", fmt::format("{}", fmt::join(config.batch_sizes, ","))},
                {"streams", streams},
                {"targets", std::to_string(config.targets)},
                {"points", fmt::format("{}", fmt::join(config.points, ","))},
                {"grid", fmt::format("{}", fmt::join(config.grid, "x"))},
                {"voxel_size", fmt::format("{}", config.voxel_size)},
                {"features", std::to_string(config.features)},
                {"voxel_modes", modes},
                {"layout", std::to_string(static_cast<int>(config.layout))},
                {"fixed_point", config.deterministic ? "yes" : "no"},
                {"distribution", config.distribution},
                {"merge", config.merge},
                {"model", config.model},
                {"calls", std::to_string(config.calls)}});
  return facts;
}

/// The sensor operations compute in f32, independent of the math mode of models.
Provenance sensor_provenance(const EngineConfig& engine, const Fleet& fleet) {
  Provenance provenance = make_provenance(engine, fleet);
  for (const char* of_models : {"math", "cache", "launch", "deterministic"}) provenance.facts.erase(of_models);
  return provenance;
}

SensorBenchSettings settings_of(const SensorBenchConfig& config, const Fleet& fleet) {
  constexpr int kGpuCalls = 20, kHostCalls = 4;
  constexpr double kLeastHostSampleUs = 1000;
  SensorBenchSettings settings;
  settings.samples = config.samples;
  settings.calls = config.calls > 0 ? config.calls : fleet.device_kind() == "cuda" ? kGpuCalls : kHostCalls;
  if (config.calls == 0 && fleet.device_kind() != "cuda") settings.least_sample_us = kLeastHostSampleUs;
  settings.timeout_seconds = config.engine.timeout_seconds;
  settings.make_ops = make_sensor_ops;
  settings.make_transfer = make_transfer;
  settings.provenance = sensor_provenance(config.engine, fleet);
  settings.provenance.facts.merge(input_facts(config));
  return settings;
}

int most_devices(const std::vector<SensorStep>& steps) {
  int most = 1;
  for (const SensorStep& step : steps) most = std::max(most, step.devices);
  return most;
}

/// Disables peer access between devices from now on. NCCL gets the same through its variables.
void keep_apart(Fleet& fleet) {
  fleet.run(fleet.num_devices(), [&](RankContext& rank) {
    for (const DeviceSpec& peer : fleet.devices())
      if (peer.index != rank.device.spec().index)
        rank.device.avoid(peer.index, "devices were asked to go through host memory");
  });
}

void conclude(SensorBenchOutcome& outcome) {
  outcome.failed = std::any_of(outcome.records.begin(), outcome.records.end(),
                               [](const Record& record) { return record.status.kind == Status::Kind::failed; });
}

SensorBenchOutcome measure_sensors(const SensorBenchConfig& given, Observer& observer, FailureWatch& watch) {
  const SensorMode& mode = find_sensor_mode(given.mode);
  check_fresh_processes(given.repeat, given.engine.environment, "`repeat`");
  check_engine(given.engine);
  choose_backend(given.engine, FleetNeeds::devices);
  const SensorBenchConfig config = with_inputs(given);
  if (!config.repeat.is_child()) tell_about_inputs(config, observer);
  check_sensor_bench(config);
  mode.check(config);
  const std::vector<SensorStep> steps = mode.steps(config);
  SensorBenchOutcome outcome;
  outcome.run_dir = config.output_dir;
  const RunHeader header{"sensor", identity(config)};
  if (config.repeat.is_parent()) {
    outcome.records =
        repeat_in_processes(config.repeat, config.engine.environment, config.output_dir, header, observer);
    conclude(outcome);
    if (!config.output_dir.empty())
      write_atomic(std::filesystem::path(config.output_dir) / "report.txt", to_text(outcome));
    return outcome;
  }
  const std::unique_ptr<Fleet> fleet = mode.make_fleet(config, most_devices(steps), job_facts(config));
  watch.met();
  fleet->end_runs_when([&observer] { return observer.cancelled(); });
  if (config.path == "host") keep_apart(*fleet);
  for (const SensorStep& step : steps) step.require_room(*fleet);
  outcome.is_root = fleet->is_root();
  std::optional<RunFolder> folder;
  if (fleet->is_root() && !config.output_dir.empty())
    folder = open_run_folder(config.repeat, config.output_dir, header);
  watch.begin(fleet->record_flights(folder ? config.output_dir : ""));
  const SensorBenchSettings settings = settings_of(config, *fleet);
  int done = 0;
  for (const SensorStep& step : steps) {
    if (fleet->agree(observer.cancelled() ? "stop" : "go") == "stop")
      throw Error(Cause::interrupted, "stopped by the user; what was measured so far is kept", "fewer `samples`");
    if (fleet->is_root()) observer.progress(done++, static_cast<int>(steps.size()), step.what);
    const std::vector<Record> records = step.measure(*fleet, settings);
    if (!fleet->is_root()) continue;
    for (Record record : records) {
      mark_process(record, config.repeat);
      if (folder) folder->append(record);
      outcome.records.push_back(record);
    }
  }
  fleet->agree("done");  // no process exits while a peer still works
  if (config.repeat.is_child()) return outcome;
  if (folder) folder->end();
  conclude(outcome);
  if (folder) folder->write_text("report.txt", to_text(outcome));
  return outcome;
}

}  // namespace

SensorBenchOutcome run_sensor_bench(const SensorBenchConfig& config, Observer& observer) {
  return FailureWatch::over([&](FailureWatch& watch) { return measure_sensors(config, observer, watch); },
                            config.engine.environment);
}

}  // namespace amdahl
