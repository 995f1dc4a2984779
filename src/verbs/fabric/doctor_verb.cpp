// Doctor: inspects and measures the machine, then evaluates the table of findings.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <mutex>
#include <optional>

#include "amdahl/error.h"
#include "amdahl/fabric.h"
#include "comm/world.h"
#include "doctor/findings.h"
#include "measure/collectives/sweep.h"
#include "measure/links/device_speed.h"
#include "measure/links/machine.h"
#include "measure/links/tests.h"
#include "report/study/findings.h"
#include "report/study/summary.h"
#include "setup/backends.h"
#include "setup/failure_watch.h"
#include "setup/provenance.h"
#include "setup/training_setup.h"
#include "spec/json.h"
#include "spec/run_folder.h"
#include "stats/percentile.h"
#include "topology/machine_probe.h"
#include "verbs/fabric/fabric_reports.h"
#include "verbs/overall_progress.h"

namespace amdahl {
namespace {

EngineConfig engine_of(const DoctorConfig& config, bool on_gpus) {
  EngineConfig engine;
  engine.backend = on_gpus ? "cuda" : "cpu";
  engine.gpus = config.gpus;
  engine.math = on_gpus ? MathMode::tf32 : MathMode::fp32;
  engine.seed = config.seed;
  engine.timeout_seconds = config.timeout_seconds;
  engine.environment = config.environment;
  engine.command_line = config.command_line;
  engine.on_fatal = config.on_fatal;
  return engine;
}

void check_config(const DoctorConfig& config) {
  if (config.devices < 0 || config.devices > 1024)
    throw Error(Cause::usage, fmt::format("`devices` is {}", config.devices), "1 to 1024");
  if (!(config.min_gbps >= 0))
    throw Error(Cause::usage, fmt::format("`min_gbps` is {}", config.min_gbps), "0 or more GB/s");
  const LaunchContext launch = detect_launch(config.environment);
  if (launch.multi_process())
    throw Error(
        Cause::usage,
        fmt::format("doctor looks at one host by one process and {} started {}", launch.family, launch.world_size),
        "amdahl doctor without a launcher, once on each host");
  EngineConfig engine;
  engine.backend = config.backend;
  engine.gpus = config.gpus;
  engine.timeout_seconds = config.timeout_seconds;
  check_engine(engine);
  if (config.backend != "auto") choose_backend(engine);
}

/// State of one run: measurements add to evidence and records.
class Examination {
 public:
  Examination(const DoctorConfig& config, Observer& observer) : config_(config), observer_(observer) {
    outcome_.run_dir = config.output_dir;
    read_study();
    if (!config.output_dir.empty())
      folder_ = RunFolder::create(config.output_dir, {"doctor", {{"devices", std::to_string(config.devices)}}});
  }

  DoctorOutcome run() {
    choose();
    look();
    if (measurable_) {
      measure();
    } else {
      outcome_.unseen.push_back("links, integrity, collectives and speed: " + why_not_);
    }
    return judge();
  }

 private:
  /// Chooses GPUs if the driver library reports any, even if nothing can run on them; otherwise virtual devices.
  void choose() {
    evidence_.environment = config_.environment;
    evidence_.min_gbps = config_.min_gbps;
    const Availability cuda = cuda_availability();
    if (config_.backend != "cpu") evidence_.machine = probe_machine(config_.sysfs, 0);
    const bool gpus = !evidence_.machine.devices.empty();
    on_gpus_ = gpus;
    measurable_ = !gpus || cuda.ok;
    why_not_ = cuda.reason;
    count_ = config_.devices > 0    ? config_.devices
             : !gpus                ? 2
             : config_.gpus.empty() ? static_cast<int>(evidence_.machine.devices.size())
                                    : static_cast<int>(config_.gpus.size());
    if (!gpus) evidence_.machine = probe_machine(config_.sysfs, count_);
    if (const std::string nccl = nccl_version(); gpus && !nccl.empty()) evidence_.machine.versions["nccl"] = nccl;
  }

  /// Reads the findings of a study about the training configuration.
  void read_study() {
    if (config_.study.empty()) return;
    const RunContents run = read_run(config_.study);
    if (run.header.kind != "study")
      throw Error(Cause::usage, fmt::format("{} is a {} run", config_.study, printable(run.header.kind, 40)),
                  "the run folder of a study");
    TrainingFindings training = training_findings(summarise_study(run.records));
    evidence_.training = std::move(training.found);
    evidence_.training_checked = std::move(training.checked);
  }

  void look() {
    evidence_.host = read_host_state(evidence_.machine, config_.shm);
    if (evidence_.host.shm_bytes < 0) outcome_.unseen.push_back(config_.shm + ": no such file system");
    if (evidence_.machine.iommu.empty()) outcome_.unseen.push_back("IOMMU: the host does not show it");
    if (!on_gpus_) return;
    nvml_ = Nvml::open();
    if (!nvml_) outcome_.unseen.push_back("health of the cards: libnvidia-ml.so.1 is not there");
    for (const DeviceSpec& device : evidence_.machine.devices)
      if (nvml_) evidence_.idle.push_back(read_device_state(*nvml_, device));
  }

  void keep(const Record& record) {
    if (folder_) folder_->append(record);
    outcome_.records.push_back(record);
    evidence_.records.push_back(record);
  }

  void measure() {
    const EngineConfig engine = engine_of(config_, on_gpus_);
    measure_links(engine);  // before NCCL, which enables peer access by itself
    const std::unique_ptr<Fleet> fleet = make_fleet(engine, count_, {{"command", "doctor"}});
    fleet->end_runs_when([this] { return observer_.cancelled(); });
    fleet->record_flights(config_.output_dir);
    measure_speed(engine, *fleet);
    if (count_ > 1)
      measure_collectives(engine, *fleet);
    else
      outcome_.unseen.push_back("links and collectives: one device");
  }

  void measure_links(const EngineConfig& engine) {
    const BackendRow& backend = choose_backend(engine);
    std::vector<LinkDevice> devices = backend.make_link_devices(engine, count_);
    std::vector<DeviceSpec> specs;
    for (const LinkDevice& device : devices) {
      device.device->end_waits_when([this] { return observer_.cancelled(); });
      specs.push_back(device.device->spec());
      for (const DeviceSpec& known : evidence_.machine.devices)
        if (known.index == specs.back().index) specs.back() = known;
    }
    LinkRun run;
    run.provenance = make_provenance(engine, on_gpus_ ? "cuda" : "cpu-virtual", specs);
    run.bench.seed = config_.seed;
    run.bench.timeout_seconds = config_.timeout_seconds;
    run.integrity_bytes = size_t{on_gpus_ ? 4u : 1u} << 20;
    run.latency_accesses = 50'000;
    LinkBench bench(std::move(devices), std::move(specs), evidence_.machine, config_.peer_access);
    if (!on_gpus_) run.bench.times = 4, run.bench.warmup = 1;
    const std::vector<const LinkTest*> small = find_link_tests({"device_to_device_memcpy_write_ce"});
    const std::vector<const LinkTest*> large =
        find_link_tests({"device_to_device_memcpy_write_ce", "device_to_device_memcpy_read_ce",
                         "host_to_device_memcpy_ce", "device_to_device_latency_sm", "integrity"});
    start_progress(bench, {small, large});
    run_tests(bench, small, run, size_t{1} << 20);
    run_tests(bench, large, run, size_t{on_gpus_ ? 256u : 16u} << 20);
    note_links(evidence_.machine, outcome_.records);
  }

  /// One progress count over link tests, the devices' speed (one piece) and the collectives.
  void start_progress(const LinkBench& bench, const std::vector<std::vector<const LinkTest*>>& passes) {
    int pieces = 1 + (count_ > 1 ? count_pieces(sweep_settings()) : 0);
    for (const auto& tests : passes)
      for (const LinkTest* test : tests) pieces += count_pieces(bench, *test);
    overall_.emplace(observer_, pieces, "links");
  }

  void run_tests(LinkBench& bench, const std::vector<const LinkTest*>& tests, LinkRun& run, size_t bytes) {
    run.bench.bytes = bytes;
    for (const LinkTest* test : tests) {
      run_link_test(
          bench, *test, run, [this](const Record& record) { keep(record); }, *overall_);
      overall_->part_ended(count_pieces(bench, *test));
    }
  }

  SweepSettings sweep_settings() const {
    SweepSettings settings;
    settings.row = &find_collective("all_reduce");
    settings.devices = count_;
    settings.sizes =
        on_gpus_ ? std::vector<int64_t>{1024, 1 << 20, 256 << 20} : std::vector<int64_t>{1024, 64 << 10, 4 << 20};
    settings.seed = config_.seed;
    settings.timeout_seconds = config_.timeout_seconds;
    settings.make_transfer = make_transfer;
    return settings;
  }

  void measure_speed(const EngineConfig& engine, Fleet& fleet) {
    SpeedSettings settings;
    settings.devices = count_;
    settings.timeout_seconds = config_.timeout_seconds;
    settings.provenance = make_provenance(engine, fleet);
    if (!on_gpus_) settings.matrix = 512, settings.copy_bytes = size_t{32} << 20, settings.seconds = 0.05;
    std::mutex mutex;
    std::map<int, DeviceState> loaded;  // latest state per device
    const auto records = measure_device_speed(fleet, settings, [&](const DeviceSpec& device) {
      if (!nvml_) return;
      const DeviceState state = read_device_state(*nvml_, device);
      std::lock_guard lock(mutex);
      loaded[device.index] = state;
    });
    for (const auto& [index, state] : loaded) evidence_.loaded.push_back(state);
    for (const Record& record : records) {
      keep(record);
      const auto best = [&](size_t series) { return percentile(record.series.at(series).samples, 100); };
      evidence_.speeds.push_back({static_cast<int>(std::get<int64_t>(record.axes.at("device"))), best(0), best(1)});
    }
    overall_->progress(1, 1, "device speed");
    overall_->part_ended(1);
  }

  void measure_collectives(const EngineConfig& engine, Fleet& fleet) {
    SweepSettings settings = sweep_settings();
    settings.provenance = make_provenance(engine, fleet);
    run_sweep(
        fleet, settings, [this](const Record& record) { keep(record); }, *overall_);
    if (!on_gpus_ || config_.nccl_log.empty()) return;
    std::ifstream log(config_.nccl_log);
    const std::string text((std::istreambuf_iterator<char>(log)), std::istreambuf_iterator<char>());
    for (const auto& [ranks, transport] : parse_nccl_transports(text)) {
      const auto index = [&](int rank) { return fleet.devices().at(static_cast<size_t>(rank)).index; };
      if (std::max(ranks.first, ranks.second) < static_cast<int>(fleet.devices().size()))
        evidence_.nccl_transports[{index(ranks.first), index(ranks.second)}] = transport;
    }
    if (evidence_.nccl_transports.empty()) outcome_.unseen.push_back("NCCL's transports: its log names none");
  }

  DoctorOutcome judge() {
    std::vector<std::string> without_evidence;
    for (const FindingRow& row : finding_table())
      if (row.has_evidence(evidence_))
        outcome_.checked.emplace_back(row.name);
      else
        without_evidence.emplace_back(row.name);
    if (!without_evidence.empty())
      outcome_.unseen.push_back(fmt::format("{}: no evidence here", fmt::join(without_evidence, ", ")));
    outcome_.machine = evidence_.machine;
    outcome_.findings = find_all(evidence_);
    std::stable_sort(outcome_.findings.begin(), outcome_.findings.end(),
                     [](const Finding& a, const Finding& b) { return a.severity > b.severity; });
    outcome_.failed = std::any_of(outcome_.findings.begin(), outcome_.findings.end(),
                                  [](const Finding& finding) { return finding.severity != Finding::Severity::notice; });
    if (folder_) {
      folder_->end();
      folder_->write_text(kDoctorFile, to_json(outcome_));
      folder_->write_text(kMachineFile, machine_to_json(outcome_.machine));
      folder_->write_text("report.txt", to_text(outcome_));
    }
    return std::move(outcome_);
  }

  const DoctorConfig& config_;
  Observer& observer_;
  std::optional<OverallProgress> overall_;  // set from the first measurement on
  std::optional<RunFolder> folder_;
  Evidence evidence_;
  DoctorOutcome outcome_;
  std::shared_ptr<Nvml> nvml_;
  bool on_gpus_ = false, measurable_ = false;
  std::string why_not_;
  int count_ = 0;
};

}  // namespace

DoctorOutcome run_doctor(const DoctorConfig& config, Observer& observer) {
  check_config(config);
  return FailureWatch::over([&](FailureWatch& watch) {
    Examination examination(config, observer);
    watch.begin(config.output_dir);
    return examination.run();
  });
}

}  // namespace amdahl
