#include "verbs/training/study_grid.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "parallel/data/strategy.h"
#include "planner/advise.h"
#include "setup/backends.h"
#include "setup/training_setup.h"
#include "verbs/planner/calibrated.h"
#include "verbs/report/evidence.h"

namespace amdahl {
namespace {

constexpr int kExtraRuns = 10;  // runs of a cell that only shows an alternative
// Usable share of a device's memory for all cells of a batch size: libraries and fragmentation take some.
constexpr double kUsableMemory = 0.8;

bool on_gpus(const StudyConfig& config) { return choose_backend(config.engine).name == std::string_view("cuda"); }

// Modes to measure per batch size.
struct Modes {
  std::set<int64_t> without_multi;  // batch sizes measured on one device only
  std::string decision;             // decision of the selector, one line per batch size
};

Modes choose_modes(const StudyConfig& config, const ModelSpec& model) {
  if (config.mode == "single") return {{config.batch_sizes.begin(), config.batch_sizes.end()}, {}};
  if (config.mode == "multi") return {};
  AdviceRequest question;
  question.model = config.training.model;
  question.num_parameters = model.num_parameters();
  question.max_devices = *std::max_element(config.devices.begin(), config.devices.end());
  question.device_kind = on_gpus(config) ? "cuda" : "cpu-virtual";
  const StudySummary evidence = config.evidence.empty() ? StudySummary{} : read_evidence(config.evidence);
  const std::optional<Calibration> calibration =
      find_calibration(config.calibration, question.device_kind, std::string(to_string(config.engine.math)));
  Modes modes;
  for (const int64_t batch : config.batch_sizes) {
    question.global_batch = config.scaling == Scaling::weak ? batch * question.max_devices : batch;
    Advice advice = advise_measured(question, evidence);
    if (advice.decision == "unknown" && calibration) advice = advise_predicted(question, model, *calibration);
    // A measurement is skipped only if the selector is certain of one device: several devices are compared with one.
    const std::vector<std::string>& unsure = advice.modes_to_measure;
    const bool sure = advice.decision == "single" && std::find(unsure.begin(), unsure.end(), "multi") == unsure.end();
    if (sure) modes.without_multi.insert(batch);
    modes.decision += fmt::format("{}selector, batch {}: {} ({})", modes.decision.empty() ? "" : "\n",
                                  question.global_batch, advice.decision, advice.reason);
  }
  return modes;
}

StudyCellSpec cell_of(const StudyConfig& config, int64_t global_batch, int64_t devices) {
  StudyCellSpec cell;
  cell.global_batch = global_batch;
  cell.devices = static_cast<int>(devices);
  cell.strategy = devices == 1 ? "single" : config.training.strategy;
  cell.launch = config.engine.launch;
  cell.math = config.engine.math;
  return cell;
}

/// One device, and every plan, for each batch size.
std::vector<std::vector<StudyCellSpec>> plan_groups(const StudyConfig& config) {
  std::vector<std::vector<StudyCellSpec>> groups;
  std::set<int64_t> planned;
  for (const int64_t batch : config.batch_sizes) {
    if (!planned.insert(batch).second) continue;  // duplicate
    std::vector<StudyCellSpec> group{cell_of(config, batch, 1)};
    for (const ParallelPlan& plan : config.plans) {
      if (plan.num_devices() == 1 && plan == parse_plan("dp1")) continue;  // measured anyway
      const int64_t rows = config.scaling == Scaling::weak ? batch * plan.num_devices() : batch;
      StudyCellSpec cell = cell_of(config, rows, plan.num_devices());
      const bool is_usual = plan.mesh.tp == 1 && plan.mesh.pp == 1 && static_cast<PlanOptions>(plan) == PlanOptions{};
      cell.strategy = is_usual ? plan.strategy : format_plan(plan);  // one name for one kind of cell in all studies
      cell.plan = plan;
      if (std::find(group.begin(), group.end(), cell) == group.end()) group.push_back(std::move(cell));
    }
    groups.push_back(std::move(group));
  }
  return groups;
}

std::vector<std::vector<StudyCellSpec>> make_groups(const StudyConfig& config, const Modes& modes) {
  const std::set<int64_t> devices(config.devices.begin(), config.devices.end());
  std::vector<std::vector<StudyCellSpec>> groups;
  std::set<int64_t> planned;
  for (int64_t batch : config.batch_sizes) {
    if (!planned.insert(batch).second) continue;  // duplicate
    std::vector<StudyCellSpec> group{cell_of(config, batch, 1)};
    for (int64_t n : devices) {
      if (n == 1 || modes.without_multi.contains(batch)) continue;
      group.push_back(cell_of(config, config.scaling == Scaling::weak ? batch * n : batch, n));
    }
    groups.push_back(std::move(group));
  }
  return groups;
}

bool feasible(const StudyConfig& config, const StudyCellSpec& cell) {
  ParallelPlan plan{config.training.plan, cell.strategy, {.dp = cell.devices}, cell.global_batch};
  return find_strategy(cell.strategy).feasible(plan).ok;
}

// Per batch, adds the alternatives, then half of the batch in every configuration: the work of each of two devices.
void add_extras(const StudyConfig& config, std::vector<std::vector<StudyCellSpec>>& groups) {
  const bool gpus = on_gpus(config);
  const ComputeModes modes{
      gpus ? std::vector{LaunchMode::eager, LaunchMode::graph} : std::vector{LaunchMode::eager},
      gpus ? std::vector{MathMode::fp32, MathMode::tf32, MathMode::bf16} : std::vector{MathMode::fp32}};
  // Early stopping needs every sample.
  const int every = config.rel_ci > 0 ? 1 : std::max(1, config.runs / kExtraRuns);
  std::set<int64_t> planned(config.batch_sizes.begin(), config.batch_sizes.end());
  for (std::vector<StudyCellSpec>& group : groups) {
    const StudyCellSpec whole = group.front();
    std::vector<StudyCellSpec> extras = other_methods(whole, modes);
    StudyCellSpec half = whole;
    half.global_batch = (whole.global_batch + 1) / 2;
    if (feasible(config, half) && planned.insert(half.global_batch).second) {
      extras.push_back(half);
      for (const StudyCellSpec& method : other_methods(half, modes)) extras.push_back(method);
    }
    for (StudyCellSpec& extra : extras) {
      extra.extra = true;
      extra.every = every;
      group.push_back(extra);
    }
  }
}

bool one_device(const std::vector<std::vector<StudyCellSpec>>& groups) {
  return std::all_of(groups.begin(), groups.end(), [](const auto& group) { return group.size() == 1; });
}

}  // namespace

void choose_mode(StudyConfig& config) {
  const int64_t most = *std::max_element(config.devices.begin(), config.devices.end());
  if (config.mode.empty()) config.mode = most > 1 ? "multi" : "single";
  if (config.mode != "single" && config.mode != "multi" && config.mode != "auto")
    throw Error(Cause::usage, fmt::format("unknown mode '{}'", config.mode),
                choices_hint(config.mode, {"single", "multi", "auto"}));
  if (config.mode != "multi" || most > 1) return;
  const bool gpus = on_gpus(config);
  throw Error(Cause::check_failed,
              fmt::format("`mode=multi` compares several devices with one, and this study has one {}",
                          gpus ? "GPU" : "CPU virtual device"),
              fmt::format("`mode=single` or auto for what one device does{}",
                          gpus ? ", or `backend=cpu devices=1,2` for CPU virtual devices"
                               : ", or `devices=1,2` for two CPU virtual devices"));
}

StudyGrid plan_grid(const StudyConfig& config, const ModelSpec& model) {
  if (config.variants != "auto" && config.variants != "none")
    throw Error(Cause::usage, fmt::format("unknown variants '{}'", config.variants),
                choices_hint(config.variants, {"auto", "none"}));
  Modes modes = config.plans.empty() ? choose_modes(config, model) : Modes{};
  StudyGrid grid{
      config.plans.empty() ? make_groups(config, modes) : plan_groups(config), std::move(modes.decision), {}};
  if (config.variants == "none" || !one_device(grid.groups)) return grid;
  add_extras(config, grid.groups);
  grid.note = fmt::format(
      "one device: also measured, {} run{} each, what it could do otherwise and half of each batch ({} "
      "leaves that out)",
      std::min(config.runs, config.rel_ci > 0 ? config.runs : kExtraRuns), config.runs == 1 ? "" : "s",
      named("`variants=none`"));
  return grid;
}

std::vector<StudyCellSpec> other_methods(const StudyCellSpec& cell, const ComputeModes& modes) {
  std::vector<StudyCellSpec> methods;
  const auto add = [&](LaunchMode launch, MathMode math) {
    methods.push_back(cell);
    methods.back().launch = launch;
    methods.back().math = math;
  };
  for (const LaunchMode launch : modes.launches)
    if (launch != cell.launch) add(launch, cell.math);
  const bool graphs =
      std::find(modes.launches.begin(), modes.launches.end(), LaunchMode::graph) != modes.launches.end();
  for (const MathMode math : modes.maths)
    if (math != cell.math) add(graphs ? LaunchMode::graph : cell.launch, math);
  return methods;
}

std::vector<int64_t> drop_extras_that_do_not_fit(std::vector<std::vector<StudyCellSpec>>& groups, int64_t memory_bytes,
                                                 const std::function<int64_t(const StudyCellSpec&)>& bytes_of) {
  std::vector<int64_t> dropped;
  if (memory_bytes <= 0) return dropped;
  for (std::vector<StudyCellSpec>& group : groups) {
    int64_t bytes = 0;
    for (const StudyCellSpec& cell : group) bytes += bytes_of(cell);
    if (static_cast<double>(bytes) <= kUsableMemory * static_cast<double>(memory_bytes)) continue;
    if (std::erase_if(group, [](const StudyCellSpec& cell) { return cell.extra; }) > 0)
      dropped.push_back(group.front().global_batch);
  }
  return dropped;
}

std::string extras_text(const std::vector<std::vector<StudyCellSpec>>& groups) {
  std::vector<std::string> extras;
  for (const auto& group : groups)
    for (const StudyCellSpec& cell : group)
      if (cell.extra)
        extras.push_back(fmt::format("{} {} {}", cell.global_batch, to_string(cell.launch), to_string(cell.math)));
  return fmt::format("{}", fmt::join(extras, ", "));
}

}  // namespace amdahl
