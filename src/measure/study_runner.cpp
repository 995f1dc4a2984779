#include "measure/study_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>

#include "measure/study_cell.h"
#include "stats/stopping.h"

namespace amdahl {
namespace {

constexpr int kProbeSteps = 3;

// All ranks of one cell, and what is known of it so far.
struct Cell {
  StudyCellSpec spec;
  TrainerOptions options;
  std::vector<std::unique_ptr<StudyCellRank>> ranks;  // by rank; other processes' ranks stay null
  std::vector<double> step_times_us;
  bool dropped = false;  // did not fit into memory
};

TrainerOptions options_of(const StudySettings& settings, const StudyCellSpec& spec) {
  TrainerOptions options = settings.trainer;
  options.plan.strategy = spec.strategy;
  options.plan.num_devices = spec.devices;
  options.plan.global_batch = spec.global_batch;
  return options;
}

Record empty_record(const StudySettings& settings, const Cell& cell, Fleet& fleet, int run) {
  const ParallelPlan& plan = cell.options.plan;
  Record record;
  record.kind = "study-run";
  record.provenance = settings.provenance;
  record.axes = {{"model", settings.model.name},
                 {"num_parameters", settings.model.num_parameters()},
                 {"global_batch", cell.spec.global_batch},
                 {"devices", static_cast<int64_t>(cell.spec.devices)},
                 {"strategy", cell.spec.strategy},
                 {"backend", std::string(fleet.device_kind() == "cuda" ? "cuda" : "cpu")},
                 {"launch", std::string(to_string(cell.options.launch))},
                 {"math", std::string(to_string(settings.math))},
                 {"scaling", std::string(to_string(settings.scaling))},
                 {"optimizer", cell.options.hyper.optimizer},
                 {"accumulate", static_cast<int64_t>(plan.accumulate)},
                 {"overlap", plan.overlap},
                 {"bucket_bytes", plan.bucket_bytes},
                 {"data", settings.data_name},
                 {"run", static_cast<int64_t>(run)},
                 {"steps", static_cast<int64_t>(settings.steps)},
                 {"warmup", static_cast<int64_t>(settings.warmup)}};
  return record;
}

AccountedStep account_runs(const std::vector<RankRun>& ranks) {
  std::vector<AccountedStep> steps;
  for (size_t i = 0; i < ranks.front().accounted.size(); ++i) {
    std::vector<StepTimes> times;
    for (const RankRun& rank : ranks) times.push_back(rank.accounted[i]);
    steps.push_back(account_step(times));
  }
  return mean_account(steps);
}

void add_health(Record& record, const std::vector<RankRun>& ranks) {
  const auto extreme = [&](double RankRun::*member) {
    double worst = -1;
    for (const RankRun& rank : ranks) worst = std::max(worst, rank.*member);
    return worst;
  };
  const auto add = [&](const char* name, const char* unit, double value) {
    if (value >= 0) record.series.push_back({name, unit, {value}});
  };
  double utilisation = 0;
  for (const RankRun& rank : ranks) utilisation += rank.utilisation_percent / static_cast<double>(ranks.size());
  add("utilisation", "percent", ranks.front().utilisation_percent < 0 ? -1 : utilisation);
  add("sm_clock", "MHz", extreme(&RankRun::clock_after_mhz));
  add("temperature", "C", extreme(&RankRun::temperature_c));
  add("power", "W", extreme(&RankRun::power_w));
  double energy = 0;
  for (const RankRun& rank : ranks) energy = rank.energy_j < 0 || energy < 0 ? -1 : energy + rank.energy_j;
  add("energy", "J", energy);  // of all devices
  if (extreme(&RankRun::clock_after_mhz) >= 0) add("throttle_reasons", "bits", extreme(&RankRun::throttle_reasons));
}

void fill_record(Record& record, const std::vector<RankRun>& ranks, int64_t global_batch) {
  double step_us = 0, memory = 0;
  for (const RankRun& rank : ranks) {
    step_us = std::max(step_us, rank.step_us);
    memory = std::max(memory, rank.memory_peak_bytes);
  }
  const AccountedStep account = account_runs(ranks);
  record.series = {{"step_time", "us", {step_us}},
                   {"throughput", "samples/s", {static_cast<double>(global_batch) / step_us * 1e6}},
                   {"loss_first", "1", {ranks.front().loss_first}},
                   {"loss_last", "1", {ranks.front().loss_last}},
                   {"memory_peak", "bytes", {memory}},
                   {"comm_bytes", "bytes", {ranks.front().comm_bytes}},
                   {"account_step", "us", {account.step}},
                   {"forward", "us", {account.forward}},
                   {"backward", "us", {account.backward}},
                   {"compute", "us", {account.compute}},
                   {"exposed_communication", "us", {account.exposed_communication}},
                   {"waiting", "us", {account.waiting}},
                   {"launch_gaps", "us", {account.launch_gaps}},
                   {"input", "us", {account.input}},
                   {"optimizer", "us", {account.optimizer}},
                   {"total_communication", "us", {account.total_communication}}};
  add_health(record, ranks);
}

// One run of one cell over all its ranks. Returns what every rank measured.
std::vector<RankRun> run_cell(Fleet& fleet, const Dataset& data, const StudySettings& settings, Cell& cell) {
  std::vector<RankRun> result;
  cell.ranks.resize(static_cast<size_t>(cell.spec.devices));
  fleet.run(cell.spec.devices, [&](RankContext& rank) {
    std::unique_ptr<StudyCellRank>& slot = cell.ranks[static_cast<size_t>(rank.rank)];
    if (!slot) slot = std::make_unique<StudyCellRank>(rank, cell.options, data, settings);
    const RankRun mine = slot->run();
    std::vector<RankRun> all =
        gather_runs(rank.communicator, mine, Deadline::after_seconds(cell.options.timeout_seconds));
    if (rank.rank == 0) result = std::move(all);
  });
  return result;
}

// One more run of the cell, with stamps of every piece.
StepTrace trace_cell(Fleet& fleet, const Dataset& data, const StudySettings& settings, Cell& cell) {
  StepTrace result;
  const TraceRequest& wanted = *settings.trace;
  cell.ranks.resize(static_cast<size_t>(cell.spec.devices));
  fleet.run(cell.spec.devices, [&](RankContext& rank) {
    std::unique_ptr<StudyCellRank>& slot = cell.ranks[static_cast<size_t>(rank.rank)];
    if (!slot) slot = std::make_unique<StudyCellRank>(rank, cell.options, data, settings);
    const RankTrace mine = slot->trace(wanted.first, wanted.end);
    StepTrace all = gather_traces(rank.communicator, mine, Deadline::after_seconds(cell.options.timeout_seconds));
    if (rank.rank == 0) result = std::move(all);
  });
  result.model = settings.model.name;
  result.strategy = cell.spec.strategy;
  result.launch = to_string(cell.options.launch);
  result.global_batch = cell.spec.global_batch;
  result.devices = cell.spec.devices;
  result.first_step = wanted.first;
  result.end_step = wanted.end;
  result.provenance = settings.provenance;
  return result;
}

bool settled(const std::vector<Cell>& cells, double rel_ci) {
  if (rel_ci <= 0) return false;
  return std::all_of(cells.begin(), cells.end(),
                     [&](const Cell& cell) { return cell.dropped || decide_stop(cell.step_times_us, {rel_ci}).tight; });
}

class GroupRunner {
 public:
  GroupRunner(Fleet& fleet, const Dataset& data, const StudySettings& settings, const EarlierRuns& done,
              const std::function<void(const Record&)>& sink, Observer& observer, int* finished)
      : fleet_(fleet),
        data_(data),
        settings_(settings),
        done_(done),
        sink_(sink),
        observer_(observer),
        finished_(finished) {}

  void run(const std::vector<StudyCellSpec>& specs) {
    for (const StudyCellSpec& spec : specs) cells_.push_back({spec, options_of(settings_, spec), {}, {}, false});
    const int before = *finished_;
    for (int run = 0; run < settings_.runs; ++run) {
      for (size_t i = 0; i < cells_.size(); ++i) one_run(cells_[run % 2 == 0 ? i : cells_.size() - 1 - i], run);
      if (fleet_.agree(settled(cells_, settings_.rel_ci) ? "stop" : "go") == "stop") break;
    }
    *finished_ = before + settings_.runs * static_cast<int>(cells_.size());
    if (!settings_.trace) return;
    for (Cell& cell : cells_)
      if (cell.spec == settings_.trace->cell) trace(cell);
  }

 private:
  void trace(Cell& cell) {
    if (cell.dropped) return observer_.warning(label(cell) + ": did not fit into memory, and was not traced");
    try {
      StepTrace result = trace_cell(fleet_, data_, settings_, cell);
      if (fleet_.is_root()) settings_.trace->sink(std::move(result));
    } catch (const Error& error) {
      if (error.cause() != Cause::out_of_memory) throw;
      observer_.warning(fmt::format("{}: not traced: {}", label(cell), error.what()));
    }
  }

  void one_run(Cell& cell, int run) {
    ++*finished_;
    const StudyCellSpec& spec = cell.spec;
    if (cell.dropped) return;
    const auto earlier = done_.find(run_key(spec.global_batch, spec.devices, spec.strategy, run));
    if (earlier != done_.end()) {
      if (earlier->second > 0) cell.step_times_us.push_back(earlier->second);
      return;
    }
    if (fleet_.agree(observer_.cancelled() ? "stop" : "go") == "stop")
      throw Error(Cause::interrupted, "stopped by the user");
    Record record = empty_record(settings_, cell, fleet_, run);
    try {
      const std::vector<RankRun> ranks = run_cell(fleet_, data_, settings_, cell);
      if (!fleet_.is_root()) return;
      fill_record(record, ranks, spec.global_batch);
      cell.step_times_us.push_back(*record.value("step_time"));
    } catch (const Error& error) {
      if (error.cause() != Cause::out_of_memory) throw;
      cell.dropped = true;
      cell.ranks.clear();
      record.status = {Status::Kind::failed, error.what()};
      observer_.warning(fmt::format("batch {} on {} devices: {}", spec.global_batch, spec.devices, error.what()));
    }
    sink_(record);
    observer_.progress(*finished_, total_runs(), label(cell));
  }

  int total_runs() const {
    size_t cells = 0;
    for (const auto& group : settings_.groups) cells += group.size();
    return static_cast<int>(cells) * settings_.runs;
  }

  static std::string label(const Cell& cell) {
    std::string text = fmt::format("{} n={} b={}", cell.spec.strategy, cell.spec.devices, cell.spec.global_batch);
    if (!cell.step_times_us.empty())
      text += fmt::format("  {:.0f} samples/s",
                          static_cast<double>(cell.spec.global_batch) / cell.step_times_us.back() * 1e6);
    return text;
  }

  Fleet& fleet_;
  const Dataset& data_;
  const StudySettings& settings_;
  const EarlierRuns& done_;
  const std::function<void(const Record&)>& sink_;
  Observer& observer_;
  int* finished_;
  std::vector<Cell> cells_;
};

}  // namespace

std::string run_key(int64_t global_batch, int64_t devices, const std::string& strategy, int64_t run) {
  return fmt::format("{}/{}/{}/{}", global_batch, devices, strategy, run);
}

void run_study_cells(Fleet& fleet, const Dataset& data, const StudySettings& settings, const EarlierRuns& done,
                     const std::function<void(const Record&)>& sink, Observer& observer) {
  int finished = 0;
  try {
    for (const auto& group : settings.groups) {
      GroupRunner runner(fleet, data, settings, done, sink, observer, &finished);
      runner.run(group);
    }
  } catch (const Error& error) {
    if (error.cause() != Cause::interrupted) throw;
    throw Error(Cause::interrupted, "stopped by the user; the runs measured so far are kept", "--resume to go on");
  }
}

double probe_study_seconds(Fleet& fleet, const Dataset& data, const StudySettings& settings) {
  double seconds = 0;
  for (const auto& group : settings.groups) {
    for (const StudyCellSpec& spec : group) {
      Cell cell{spec, options_of(settings, spec), {}, {}, false};
      double step_us = 0;
      fleet.run(spec.devices, [&](RankContext& rank) {
        StudyCellRank probe(rank, cell.options, data, settings);
        const double mine = probe.probe(kProbeSteps);
        if (rank.rank == 0) step_us = mine;
      });
      seconds += step_us * 1e-6 * settings.runs * (settings.warmup + settings.steps + settings.accounted_steps + 1);
    }
  }
  return seconds;
}

int64_t modelled_memory_bytes(const StudySettings& settings, const StudyCellSpec& cell, int64_t data_rows) {
  const TrainerOptions options = options_of(settings, cell);
  const StrategyRow& row = find_strategy(cell.strategy);
  int64_t owned = 0;
  for (const FloatRange& range : row.owned(options.plan, settings.model, 0)) owned += range.floats();
  const int64_t parameters = 2 * make_layout(settings.model).num_floats + num_state_arrays(options.hyper) * owned;
  const int64_t rows = micro_batch_rows(options.plan, row.full_batch_everywhere, 0, 0).rows();
  const int64_t pool_rows = row.full_batch_everywhere || row.data_on_root
                                ? cell.global_batch
                                : even_share(cell.global_batch, cell.devices, 0).rows();
  const int64_t row_floats = settings.model.input_width + target_width(settings.model);
  const int64_t batches = pool_batches(data_rows, cell.global_batch, settings.pool_batches);
  const int64_t staging = row.data_on_root ? even_share(cell.global_batch, cell.devices, 0).rows() * row_floats : 0;
  return (parameters + batches * pool_rows * row_floats + staging) * static_cast<int64_t>(sizeof(float)) +
         settings.model.activation_bytes(rows);
}

}  // namespace amdahl
