#include "measure/study/runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "base/limited_devices.h"
#include "measure/sampling/rank_sampler.h"
#include "measure/study/cell.h"
#include "measure/study/cell_memory.h"
#include "measure/training/measured_shares.h"
#include "plan/cell_axes.h"
#include "stats/stopping.h"

namespace amdahl {
namespace {

constexpr int kDiscardedRuns = 1;  // of a cell before its first counted one
// Of the first cell on a device in a process. On an H200, copies of initial weights from the host change the launch
// cost: a graph takes 1.2 us less before the fourth such copy than after it.
constexpr int kFirstDiscardedRuns = 3;

// All ranks of one cell, and its state and results so far.
struct Cell {
  StudyCellSpec spec;
  TrainerOptions options;
  std::vector<std::unique_ptr<Ops>> ops{};              // by rank, for a math mode other than the fleet's; else null
  std::vector<std::unique_ptr<StudyCellRank>> ranks{};  // by rank; other processes' ranks stay null
  std::vector<double> step_times_us{};
  MemoryParts memory{};        // modelled, of one device, without what communicators of a mesh's groups take
  int64_t modelled_bytes = 0;  // with it; on the process of rank 0
  MeasuredShares shares{};     // of shares=auto
  int sharing = 1;             // devices that share a memory
  int64_t last_used = 0;       // number of the use, over all cells
  bool prepared = false;       // warmed up
  bool dropped = false;        // did not fit into memory
};

bool used_earlier(const Cell& a, const Cell& b) { return a.last_used < b.last_used; }

Record empty_record(const StudySettings& settings, const Cell& cell, Fleet& fleet, int run) {
  Record record;
  record.kind = "study-run";
  record.provenance = settings.provenance;
  record.origin = origin_of_devices(settings.provenance);
  for (const auto& [fact, value] : {std::pair<const char*, std::string_view>{"math", to_string(cell.spec.math)},
                                    {"launch", to_string(cell.spec.launch)}})
    if (const auto found = record.provenance.facts.find(fact); found != record.provenance.facts.end())
      found->second = value;
  record.axes = {{"model", settings.model.name},
                 {"num_parameters", settings.model.num_parameters()},
                 {"global_batch", cell.spec.global_batch},
                 {"devices", static_cast<int64_t>(cell.spec.devices)},
                 {"strategy", cell.spec.strategy},
                 {"backend", std::string(fleet.device_kind() == "cuda" ? "cuda" : "cpu")},
                 {"launch", std::string(to_string(cell.options.launch))},
                 {"math", std::string(to_string(cell.spec.math))},
                 {"scaling", std::string(to_string(settings.scaling))},
                 {"optimizer", optimizer_text(cell.options.hyper)},
                 {"data", settings.data_name},
                 {"run", static_cast<int64_t>(run)},
                 {"steps", static_cast<int64_t>(settings.steps)},
                 {"warmup", static_cast<int64_t>(settings.warmup)}};
  add_plan_axes(cell.options.plan, record.axes);
  if (settings.process >= 0) record.axes[kProcessAxis] = static_cast<int64_t>(settings.process);
  return record;
}

void add_shares(Record& record, const Cell& cell) {
  if (cell.options.plan.shares == kEqualShares || cell.spec.devices == 1) return;
  ParallelPlan plan = cell.options.plan;
  if (!cell.shares.speeds.empty()) {
    record.series.push_back({"device_speed", "samples/s", cell.shares.speeds});
    plan.shares = cell.shares.shares;
  }
  std::vector<double> rows;
  for (int rank = 0; rank < plan.mesh.dp; ++rank) rows.push_back(static_cast<double>(data_share(plan, rank).rows()));
  record.series.push_back({"share_rows", "1", std::move(rows)});
}

StudyCellRank& cell_rank(RankContext& rank, const Dataset& data, const StudySettings& settings, Cell& cell) {
  const auto i = static_cast<size_t>(rank.rank);
  if (cell.ranks[i]) return *cell.ranks[i];
  RankContext context = rank;
  if (cell.spec.math != settings.math) {
    cell.ops[i] = settings.make_ops(rank.device, cell.spec.math);
    context.ops = *cell.ops[i];
  }
  TrainerOptions options = cell.options;
  if (options.plan.shares == kAutoShares) {
    const MeasuredShares measured = measure_shares(context, options, data);
    options.plan.shares = measured.shares;
    if (rank.rank == 0) cell.shares = measured;
  }
  cell.ranks[i] = std::make_unique<StudyCellRank>(context, options, data, settings);
  return *cell.ranks[i];
}

// The first rank's lack of memory for the cell, the same text on all processes; none where it is resident or fits. Sets
// what the cell needs.
// The error is not thrown by a rank: it would abort the communicators of all cells.
std::string lack_of_memory(Fleet& fleet, Cell& cell) {
  std::string lack;
  fleet.run(cell.spec.devices, [&](RankContext& rank) {
    const MemoryParts needed = with_groups(cell.memory, cell.options, rank.communicator);
    if (rank.rank == 0) cell.modelled_bytes = needed.total();
    const auto own = cell.ranks[static_cast<size_t>(rank.rank)]
                         ? std::nullopt
                         : lacking_memory(rank.device, cell.sharing, cell.options, needed);
    const std::string first =
        first_error(rank.communicator, own ? own->what() : "", Deadline::after_seconds(cell.options.timeout_seconds));
    if (rank.rank == 0) lack = first;
  });
  return fleet.agree(lack);
}

void release(Cell& cell) {
  cell.ranks.clear();
  cell.ops.clear();
  cell.prepared = false;
}

// Makes the cell's place, where needed by releasing other cells, the least recently used first: order_of_run
// alternates, so that it is the one needed last.
void make_room(Fleet& fleet, const Dataset& data, const StudySettings& settings, std::vector<Cell>& cells, Cell& cell) {
  cell.last_used = 1 + std::max_element(cells.begin(), cells.end(), used_earlier)->last_used;
  if (!cell.ranks.empty()) return;
  cell.memory = cell_memory(settings, cell.spec, backend_of(fleet), data.num_rows);
  cell.sharing = devices_sharing_memory(fleet, cell.spec.devices);
  cell.ops.resize(static_cast<size_t>(cell.spec.devices));
  cell.ranks.resize(static_cast<size_t>(cell.spec.devices));
  for (std::string lack = lack_of_memory(fleet, cell); !lack.empty(); lack = lack_of_memory(fleet, cell)) {
    Cell* oldest = nullptr;
    for (Cell& other : cells)
      if (&other != &cell && !other.ranks.empty() && (!oldest || used_earlier(other, *oldest))) oldest = &other;
    if (!oldest) throw Error(Cause::out_of_memory, lack);
    release(*oldest);
  }
}

// Warms the cell up, once. Separate from the first run, so that it starts under the same conditions as every other run.
// `used`: how many of the fleet's devices a cell of this process has used before.
void prepare_cell(Fleet& fleet, const Dataset& data, const StudySettings& settings, Cell& cell, int* used) {
  if (std::exchange(cell.prepared, true)) return;
  const int discarded = cell.spec.devices > *used ? kFirstDiscardedRuns : kDiscardedRuns;
  fleet.run(cell.spec.devices, [&](RankContext& rank) { cell_rank(rank, data, settings, cell).prepare(discarded); });
  *used = std::max(*used, cell.spec.devices);
}

// One run of one cell over all its ranks. Returns the measurements of every rank.
std::vector<RankRun> run_cell(Fleet& fleet, const Dataset& data, const StudySettings& settings,
                              std::vector<Cell>& cells, Cell& cell, int* used) {
  std::vector<RankRun> result;
  make_room(fleet, data, settings, cells, cell);
  prepare_cell(fleet, data, settings, cell, used);
  fleet.run(cell.spec.devices, [&](RankContext& rank) {
    const RankRun mine = cell_rank(rank, data, settings, cell).run();
    std::vector<RankRun> all =
        gather_runs(rank.communicator, mine, Deadline::after_seconds(cell.options.timeout_seconds));
    if (rank.rank == 0) result = std::move(all);
  });
  return result;
}

// One extra run of the cell, with stamps of every piece.
StepTrace trace_cell(Fleet& fleet, const Dataset& data, const StudySettings& settings, std::vector<Cell>& cells,
                     Cell& cell) {
  StepTrace result;
  const TraceRequest& wanted = *settings.trace;
  make_room(fleet, data, settings, cells, cell);
  fleet.run(cell.spec.devices, [&](RankContext& rank) {
    const RankTrace mine = cell_rank(rank, data, settings, cell).trace(wanted.first, wanted.end);
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
  result.how = stamps_text(result, cell.step_times_us);
  return result;
}

bool all_tight(const std::vector<Cell>& cells, double rel_ci) {
  if (rel_ci <= 0) return false;
  return std::all_of(cells.begin(), cells.end(), [&](const Cell& cell) {
    return cell.dropped || cell.spec.extra || decide_stop(cell.step_times_us, {rel_ci}).tight;
  });
}

// Progress of a whole study.
struct Progress {
  int finished = 0;      // runs
  int devices_used = 0;  // by the cells measured so far in this process
};

class GroupRunner {
 public:
  GroupRunner(Fleet& fleet, const Dataset& data, const StudySettings& settings, const EarlierRuns& done,
              const std::function<void(const Record&)>& sink, Observer& observer, Progress* progress)
      : fleet_(fleet),
        data_(data),
        settings_(settings),
        done_(done),
        sink_(sink),
        observer_(observer),
        progress_(progress) {}

  void run(const std::vector<StudyCellSpec>& specs) {
    for (const StudyCellSpec& spec : specs) cells_.push_back({.spec = spec, .options = options_of(settings_, spec)});
    const int before = progress_->finished;
    for (int run = settings_.first_run; run < settings_.runs_end(); ++run) {
      for (const size_t i : order_of_run(specs, run)) one_run(cells_[i], run);
      if (fleet_.agree(all_tight(cells_, settings_.rel_ci) ? "stop" : "go") == "stop") break;
    }
    progress_->finished = before + (settings_.runs_end() - settings_.first_run) * static_cast<int>(cells_.size());
    if (!settings_.trace) return;
    for (Cell& cell : cells_)
      if (cell.spec == settings_.trace->cell) trace(cell);
  }

 private:
  void trace(Cell& cell) {
    if (cell.dropped) return observer_.warning(label(cell) + ": did not fit into memory, and was not traced");
    try {
      StepTrace result = trace_cell(fleet_, data_, settings_, cells_, cell);
      if (fleet_.is_root()) settings_.trace->sink(std::move(result));
    } catch (const Error& error) {
      if (error.cause() != Cause::out_of_memory) throw;
      observer_.warning(fmt::format("{}: not traced: {}", label(cell), error.what()));
    }
  }

  void one_run(Cell& cell, int run) {
    ++progress_->finished;
    const StudyCellSpec& spec = cell.spec;
    if (cell.dropped || !takes_part(spec, run)) return;
    const auto earlier = done_.find(run_key(spec, run));
    if (earlier != done_.end()) {
      if (earlier->second > 0) cell.step_times_us.push_back(earlier->second);
      return;
    }
    if (fleet_.agree(observer_.cancelled() ? "stop" : "go") == "stop")
      throw Error(Cause::interrupted, "stopped by the user");
    Record record = empty_record(settings_, cell, fleet_, run);
    try {
      const std::vector<RankRun> ranks = run_cell(fleet_, data_, settings_, cells_, cell, &progress_->devices_used);
      if (!fleet_.is_root()) return;
      fill_record(record, ranks, settings_.model, plan_of(settings_, spec), cell.modelled_bytes);
      add_shares(record, cell);
      cell.step_times_us.push_back(*record.value("step_time"));
    } catch (const Error& error) {
      if (error.cause() != Cause::out_of_memory) throw;
      cell.dropped = true;
      for (Cell& each : cells_) release(each);  // their communicators are gone if the allocation of a rank failed
      record.status = {Status::Kind::failed, error.what()};
      observer_.warning(fmt::format("batch {} on {} devices: {}", spec.global_batch, spec.devices, error.what()));
    }
    sink_(record);
    observer_.progress(progress_->finished, total_runs(), label(cell));
  }

  int total_runs() const {
    size_t cells = 0;
    for (const auto& group : settings_.groups) cells += group.size();
    return static_cast<int>(cells) * (settings_.runs_end() - settings_.first_run);
  }

  static std::string label(const Cell& cell) {
    std::string text = fmt::format("{} n={} b={}", cell.spec.strategy, cell.spec.devices, cell.spec.global_batch);
    if (cell.spec.extra) text += fmt::format(" {} {}", to_string(cell.spec.launch), to_string(cell.spec.math));
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
  Progress* progress_;
  std::vector<Cell> cells_;
};

}  // namespace

std::string run_key(const StudyCellSpec& cell, int64_t run) {
  return fmt::format("{}/{}/{}/{}/{}/{}", cell.global_batch, cell.devices, cell.strategy, to_string(cell.launch),
                     to_string(cell.math), run);
}

bool takes_part(const StudyCellSpec& cell, int run) { return run % cell.every == 0; }

std::vector<size_t> order_of_run(const std::vector<StudyCellSpec>& cells, int run) {
  // By the cell's own count of runs: every 2nd run is always an even one.
  const auto backward = [&](size_t i) { return run / cells[i].every % 2 == 1; };
  std::vector<size_t> order;
  for (size_t i = cells.size(); i-- > 0;)
    if (backward(i)) order.push_back(i);
  for (size_t i = 0; i < cells.size(); ++i)
    if (!backward(i)) order.push_back(i);
  return order;
}

int runs_of(const StudySettings& settings, const StudyCellSpec& cell) {
  return (settings.runs + cell.every - 1) / cell.every;
}

void run_study_cells(Fleet& fleet, const Dataset& data, const StudySettings& settings, const EarlierRuns& done,
                     const std::function<void(const Record&)>& sink, Observer& observer) {
  Progress progress;
  try {
    for (const auto& group : settings.groups) {
      GroupRunner runner(fleet, data, settings, done, sink, observer, &progress);
      runner.run(group);
    }
  } catch (const Error& error) {
    if (error.cause() != Cause::interrupted) throw;
    throw Error(Cause::interrupted, "stopped by the user; the runs measured so far are kept", "`resume` to go on");
  }
}

}  // namespace amdahl
