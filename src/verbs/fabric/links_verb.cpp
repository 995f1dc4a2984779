// Links: runs the tests over this machine's devices, records the results, and derives the machine's link data.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "amdahl/fabric.h"
#include "comm/world.h"
#include "measure/links/tests.h"
#include "setup/backends.h"
#include "setup/fabric_engine.h"
#include "setup/failure_watch.h"
#include "setup/fresh_processes.h"
#include "setup/provenance.h"
#include "setup/training_setup.h"
#include "spec/json.h"
#include "spec/run_folder.h"
#include "topology/machine_probe.h"
#include "verbs/fabric/fabric_reports.h"
#include "verbs/overall_progress.h"

namespace amdahl {
namespace {

void check_numbers(const LinksConfig& config) {
  const auto within = [](int64_t value, int64_t low, int64_t high, const char* option) {
    if (value < low || value > high)
      throw Error(Cause::usage, fmt::format("{} is {}", option, value), fmt::format("{} to {}", low, high));
  };
  within(config.buffer_bytes, 0, int64_t{1} << 40, "`buffer_bytes`");
  if (config.buffer_bytes > 0) within(config.buffer_bytes, 4096, int64_t{1} << 40, "`buffer_bytes`");
  within(config.copies, 0, 100'000, "`copies`");
  within(config.samples, 1, 100'000, "`samples`");
  within(config.devices, 0, 1 << 16, "`devices`");
  within(config.injected_faults, 0, 10'000'000, "`injected_faults`");
  if (!(config.min_gbps >= 0))
    throw Error(Cause::usage, fmt::format("`min_gbps` is {}", config.min_gbps), "0 or more GB/s");
  const LaunchContext launch = detect_launch(config.environment);
  if (launch.multi_process())
    throw Error(
        Cause::usage,
        fmt::format("links looks at the devices of one process and {} started {}", launch.family, launch.world_size),
        "amdahl links without a launcher, once on each host");
}

/// Sizes of a sweep up to `most`, by factors of eight.
std::vector<size_t> sweep_bytes(size_t most) {
  std::vector<size_t> sizes;
  for (size_t bytes = 4096; bytes <= most; bytes *= 8) sizes.push_back(bytes);
  if (sizes.back() != most) sizes.push_back(most);
  return sizes;
}

LinkRun run_of(const LinksConfig& config, bool on_gpus) {
  LinkRun run;
  run.bench.bytes =
      config.buffer_bytes > 0 ? static_cast<size_t>(config.buffer_bytes) : size_t{on_gpus ? 512u : 16u} << 20;
  run.bench.times = config.copies > 0 ? config.copies : (on_gpus ? 16 : 4);
  run.bench.warmup = on_gpus ? 4 : 1;
  run.bench.samples = config.samples;
  run.bench.check = config.check;
  run.bench.seed = config.seed;
  run.bench.timeout_seconds = config.timeout_seconds;
  run.sweep_bytes = sweep_bytes(run.bench.bytes);
  run.integrity_bytes = std::min(run.bench.bytes, size_t{on_gpus ? 4u : 1u} << 20);
  run.traffic = config.traffic;
  run.injected_faults = config.injected_faults;
  return run;
}

/// Adds the conclusions from the records, and writes the reports into the run folder.
LinksOutcome concluded(const LinksConfig& config, LinksOutcome outcome) {
  conclude_links(outcome, config.min_gbps);
  if (config.output_dir.empty()) return outcome;
  write_atomic(std::filesystem::path(config.output_dir) / kMachineFile, machine_to_json(outcome.machine));
  write_links_report(config.output_dir, outcome);
  return outcome;
}

std::string joined(const std::vector<std::string>& items) { return fmt::format("{}", fmt::join(items, ",")); }

LinksOutcome measure_links(const LinksConfig& config, Observer& observer, FailureWatch& watch) {
  check_numbers(config);
  const std::vector<const LinkTest*> tests = find_link_tests(config.tests);
  if (tests.empty()) throw Error(Cause::usage, "no link test was named", "`tests=default`");
  check_fresh_processes(config.repeat, config.environment, "`repeat`");
  const EngineConfig engine = engine_of(config);
  check_engine(engine);
  const BackendRow& backend = choose_backend(engine, FleetNeeds::devices);
  const bool on_gpus = backend.name == "cuda";
  const int count = config.devices > 0 ? config.devices : static_cast<int>(default_device_counts(engine).back());
  LinkRun run = run_of(config, on_gpus);
  const RunHeader header{"links",
                         {{"tests", joined(config.tests)},
                          {"devices", std::to_string(count)},
                          {"buffer_bytes", std::to_string(run.bench.bytes)},
                          {kMinGbpsKey, fmt::format("{}", config.min_gbps)}}};
  LinksOutcome outcome;
  outcome.run_dir = config.output_dir;
  outcome.machine = probe_machine("/sys", on_gpus ? 0 : count);
  if (config.repeat.is_parent()) {
    outcome.records = repeat_in_processes(config.repeat, config.environment, config.output_dir, header, observer);
    return concluded(config, std::move(outcome));
  }
  std::vector<LinkDevice> devices = backend.make_link_devices(engine, count);
  std::vector<DeviceSpec> specs;
  for (const LinkDevice& device : devices) {
    device.device->end_waits_when([&observer] { return observer.cancelled(); });
    specs.push_back(device.device->spec());
  }
  run.provenance = make_provenance(engine, on_gpus ? "cuda" : "cpu-virtual", specs);
  std::optional<RunFolder> folder;
  if (!config.output_dir.empty()) folder = open_run_folder(config.repeat, config.output_dir, header);
  if (folder) watch.begin(config.output_dir);
  if (folder) folder->write_text(kMachineFile, machine_to_json(outcome.machine));  // lets an unfinished run be reported
  for (DeviceSpec& spec : specs)  // copies the devices' placement from the machine
    for (const DeviceSpec& known : outcome.machine.devices)
      if (known.index == spec.index) spec = known;
  LinkBench bench(std::move(devices), std::move(specs), outcome.machine, config.peer_access);
  int pieces = 0;
  for (const LinkTest* test : tests) pieces += count_pieces(bench, *test);
  OverallProgress overall(observer, pieces, std::string(tests.front()->name));
  for (const LinkTest* test : tests) {
    run_link_test(
        bench, *test, run,
        [&](Record record) {
          mark_process(record, config.repeat);
          if (folder) folder->append(record);
          outcome.records.push_back(record);
        },
        overall);
    overall.part_ended(count_pieces(bench, *test));
  }
  if (config.repeat.is_child()) return outcome;
  if (folder) folder->end();
  return concluded(config, std::move(outcome));
}

}  // namespace

std::vector<LinkTestInfo> list_link_tests() {
  std::vector<LinkTestInfo> list;
  for (const LinkTest& test : link_tests())
    list.push_back({std::string(test.name), std::string(test.group), std::string(test.summary)});
  return list;
}

LinksOutcome run_links(const LinksConfig& config, Observer& observer) {
  return FailureWatch::over([&](FailureWatch& watch) { return measure_links(config, observer, watch); });
}

}  // namespace amdahl
