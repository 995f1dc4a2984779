// All measurements of a machine: the verbs one after another, then a page about all their runs.
#include "amdahl/report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <new>

#include "amdahl/fabric.h"
#include "amdahl/sensor.h"
#include "amdahl/study.h"
#include "comm/world.h"
#include "files/whole_file.h"
#include "report/common/aligned_table.h"
#include "setup/backends.h"
#include "setup/training_setup.h"
#include "spec/run_folder.h"
#include "verbs/part_progress.h"

namespace amdahl {
namespace {

namespace fs = std::filesystem;

/// State shared by the parts.
struct Everything {
  const AllConfig& config;
  EngineConfig engine;
  bool on_gpus = false;
  std::vector<int64_t> counts;  // device counts: 1, 2, 4, ...; the last is all devices
  MachineSpec machine{};        // as returned by the previous part

  int devices() const { return static_cast<int>(counts.back()); }
};

/// The fields that the configurations of doctor, links and collectives have in common.
template <class Config>
Config fabric_config(const Everything& all, const fs::path& dir) {
  Config config;
  config.backend = all.config.backend;
  config.gpus = all.config.gpus;
  config.devices = all.devices();
  config.seed = all.config.seed;
  config.timeout_seconds = all.config.timeout_seconds;
  config.environment = all.config.environment;
  config.command_line = all.config.command_line;
  config.on_fatal = all.config.on_fatal;
  config.output_dir = dir.string();
  return config;
}

void look_at_topology(Everything& all, const fs::path& dir, Observer&, AllPart& part) {
  const TopoOutcome outcome = run_topo({.virtual_devices = all.on_gpus ? 0 : all.devices()});
  fs::create_directories(dir);
  write_atomic(dir / "machine.json", to_json(outcome));
  write_atomic(dir / "topology.svg", to_svg(outcome));
  write_atomic(dir / "report.txt", to_text(outcome));
  all.machine = outcome.machine;
  const std::vector<DeviceSpec>& devices = outcome.machine.devices;
  part.result = fmt::format("{} x {}", devices.size(), all.on_gpus ? devices.front().name : "CPU virtual device");
}

void examine(Everything& all, const fs::path& dir, Observer& observer, AllPart& part) {
  auto config = fabric_config<DoctorConfig>(all, dir);
  config.nccl_log = all.config.nccl_log;
  config.environment = all.config.user_environment;
  const DoctorOutcome outcome = run_doctor(config, observer);
  all.machine = outcome.machine;
  std::vector<std::string> names;
  for (const Finding& finding : outcome.findings)
    if (std::find(names.begin(), names.end(), finding.name) == names.end()) names.push_back(finding.name);
  part.result = names.empty() ? fmt::format("{} checks passed", outcome.checked.size())
                              : fmt::format("findings: {}", fmt::join(names, ", "));
  if (outcome.failed) part.end = AllPart::End::problems;
}

void measure_links(Everything& all, const fs::path& dir, Observer& observer, AllPart& part) {
  auto config = fabric_config<LinksConfig>(all, dir);
  if (all.config.quick && !all.on_gpus)
    config.samples = 1, config.buffer_bytes = 1 << 20;  // GPUs need no shorter settings
  const LinksOutcome outcome = run_links(config, observer);
  all.machine = outcome.machine;
  part.result = outcome.slow.empty() ? fmt::format("{} measurements", outcome.records.size()) : outcome.slow.front();
  if (outcome.slow.size() > 1) part.result += fmt::format(" and {} more", outcome.slow.size() - 1);
  if (!outcome.failed) return;
  part.end = AllPart::End::problems;
  if (outcome.slow.empty()) part.result += ", some CORRUPT or FAILED";
}

constexpr const char* kCollectives[]{"all_reduce", "all_gather", "reduce_scatter", "broadcast", "sendrecv"};

void measure_collectives(Everything& all, const fs::path& dir, Observer& observer, AllPart& part) {
  auto config = fabric_config<CollectivesConfig>(all, dir);
  config.collectives.assign(std::begin(kCollectives), std::end(kCollectives));
  config.step_factor = all.config.quick ? 32 : 4;
  config.min_bytes = 1024;
  config.max_bytes = int64_t{all.on_gpus ? 256 : all.config.quick ? 1 : 16} << 20;
  if (all.config.quick) config.iterations = 5, config.warmup = 2;
  const CollectivesOutcome outcome = run_collectives(config, observer);
  part.result = fmt::format("{} measurements of {} collectives", outcome.records.size(), std::size(kCollectives));
  if (!outcome.waived.empty()) part.end = AllPart::End::skipped, part.result = outcome.waived;
  if (outcome.failed) part.end = AllPart::End::problems, part.result += ", some FAILED";
}

void study_training(Everything& all, const fs::path& dir, Observer& observer, AllPart& part) {
  StudyConfig config;
  config.engine = all.engine;
  if (all.on_gpus) config.engine.launch = LaunchMode::graph, config.engine.math = MathMode::tf32;
  config.devices = all.counts;
  if (all.config.quick) config.batch_sizes = {64, 256}, config.runs = 5, config.steps = 20;
  config.output_dir = dir.string();
  const StudyOutcome outcome = run_study(config, observer);
  part.result = outcome.summary.conclusion;
  if (outcome.nothing_fitted) part.end = AllPart::End::problems, part.result = "no cell fitted into memory";
}

void measure_sensors(Everything& all, const fs::path& dir, Observer& observer, AllPart& part) {
  SensorBenchConfig config;
  config.engine = all.engine;
  config.mode = "data";
  config.devices = all.counts;
  if (all.config.quick) config.points = {100'000}, config.samples = 5;
  if (all.config.quick) config.voxel_modes = {VoxelMode::count, VoxelMode::mean};
  config.output_dir = dir.string();
  const SensorBenchOutcome outcome = run_sensor_bench(config, observer);
  part.result = fmt::format("{} measurements of voxelize", outcome.records.size());
  if (outcome.failed) part.end = AllPart::End::problems, part.result += ", some FAILED";
}

struct PartRow {
  const char* name;
  const char* folder;
  int quick_share, full_share;  // percent of the total time; each column sums to 100
  int rounds;                   // how many times its progress restarts
  bool peers;                   // requires direct data transfer between every pair of GPUs
  void (*run)(Everything& all, const fs::path& dir, Observer& observer, AllPart& part);
};

/// In the order of the lesson's examples: health of the machine, then its components, then training.
constexpr PartRow kParts[] = {{"topology", "topology", 1, 1, 1, false, look_at_topology},
                              {"doctor", "doctor", 27, 6, 1, false, examine},
                              {"links", "links", 22, 7, 1, false, measure_links},
                              {"collectives", "collectives", 3, 9, 5, true, measure_collectives},
                              {"study", "study", 22, 43, 1, true, study_training},
                              {"sensor bench", "sensor", 25, 34, 1, true, measure_sensors}};

void check(const AllConfig& config, Everything& all) {
  check_engine(all.engine);
  const LaunchContext launch = detect_launch(config.environment);
  if (launch.multi_process())
    throw Error(Cause::usage,
                fmt::format("all looks at one host by one process and {} started {}", launch.family, launch.world_size),
                "amdahl all without a launcher, once on each host");
  all.on_gpus = choose_backend(all.engine, FleetNeeds::devices).name == "cuda";
  all.counts = default_device_counts(all.engine);
  if (config.devices < 1) return;
  if (all.on_gpus && config.devices > all.devices())
    throw Error(Cause::environment_missing, fmt::format("{} GPUs asked for and {} here", config.devices, all.devices()),
                "fewer `devices`");
  all.counts.clear();
  for (int64_t n = 1; n < config.devices; n *= 2) all.counts.push_back(n);
  all.counts.push_back(config.devices);
}

void make_place(const fs::path& dir, const std::string& command_line) {
  std::error_code error;
  fs::create_directories(dir, error);
  if (error) throw_write_error(dir, "create the folder", error.value());
  for (const PartRow& row : kParts)
    if (fs::exists(dir / row.folder, error))
      throw Error(Cause::usage, fmt::format("{} is already there", (dir / row.folder).string()),
                  "another folder, or remove that one");
  write_atomic(dir / "command.txt", command_line + "\n");
}

AllPart run_part(const PartRow& row, Everything& all, Observer& observer) {
  AllPart part;
  part.name = row.name;
  if (row.peers && all.on_gpus) part.result = unsafe_pair(all.machine);
  if (!part.result.empty()) {
    part.end = AllPart::End::skipped;
    return part;
  }
  const fs::path dir = fs::path(all.config.output_dir) / row.folder;
  const auto start = std::chrono::steady_clock::now();
  try {
    row.run(all, dir, observer, part);
  } catch (const Error& error) {
    if (error.cause() == Cause::interrupted)
      throw Error(Cause::interrupted,
                  fmt::format("stopped by the user in {}; what was measured before is kept", row.name),
                  fmt::format("amdahl report {} `html=FILE` for a page of it", all.config.output_dir));
    part.end = AllPart::End::failed;
    part.result = fmt::format("{}; try: {}", error.what(), error.remedy());
  } catch (const std::bad_alloc&) {
    part.end = AllPart::End::failed;
    part.result = "host memory ran out";
  }
  part.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::error_code error;
  if (fs::exists(dir, error)) part.run_dir = dir.string();
  return part;
}

/// Writes the page about all runs with Records; its notes say what is left out.
std::string write_page(const AllConfig& config, const std::vector<AllPart>& parts, Observer& observer) {
  PageConfig page;
  page.html = config.html.empty() ? (fs::path(config.output_dir) / "report.html").string() : config.html;
  for (const AllPart& part : parts)
    if (std::error_code error; fs::exists(fs::path(part.run_dir) / kRecordsFile, error))
      page.runs.push_back(part.run_dir);
  if (page.runs.empty()) return {};
  try {
    for (const std::string& note : run_page_report(page).notes) observer.warning(note);
    return page.html;
  } catch (const Error& error) {
    observer.warning(fmt::format("no page: {}", error.what()));
    return {};
  }
}

std::string_view end_text(AllPart::End end) {
  constexpr std::string_view kTexts[] = {"done", "PROBLEMS", "FAILED", "skipped"};
  return kTexts[static_cast<size_t>(end)];
}

}  // namespace

std::string to_text(const AllOutcome& outcome, int width) {
  constexpr size_t kIndent = 23;  // columns before a part's result
  const size_t room = width > 0 ? std::max(static_cast<size_t>(width), kIndent + 20) : 0;
  std::string text;
  for (const AllPart& part : outcome.parts) {
    const std::string row = fmt::format("{:<13} {:<8} {}", part.name, end_text(part.end), part.result);
    text += fmt::format("{}\n", fmt::join(wrapped_lines(row, room, kIndent), "\n"));
    if (!part.run_dir.empty()) text += fmt::format("{:<23}{:.1f} s, {}\n", "", part.seconds, part.run_dir);
  }
  if (!outcome.page.empty()) text += fmt::format("page: {}\n", outcome.page);
  return text;
}

AllOutcome run_all(const AllConfig& config, Observer& observer) {
  Everything all{config, {}, false, {}};
  all.engine.backend = config.backend;
  all.engine.gpus = config.gpus;
  all.engine.seed = config.seed;
  all.engine.timeout_seconds = config.timeout_seconds;
  all.engine.environment = config.environment;
  all.engine.command_line = config.command_line;
  all.engine.on_fatal = config.on_fatal;
  check(config, all);
  make_place(config.output_dir, config.command_line);
  AllOutcome outcome;
  int before = 0;
  for (const PartRow& row : kParts) {
    const int share = config.quick ? row.quick_share : row.full_share;
    PartProgress progress(observer, row.name, {before, share, row.rounds});
    outcome.parts.push_back(run_part(row, all, progress));
    before += share;
    const AllPart::End end = outcome.parts.back().end;
    outcome.failed = outcome.failed || end == AllPart::End::problems || end == AllPart::End::failed;
  }
  observer.progress(before, PartProgress::kWhole, "page");
  outcome.page = write_page(config, outcome.parts, observer);
  return outcome;
}

}  // namespace amdahl
