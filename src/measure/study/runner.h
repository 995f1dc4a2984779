// The study: runs of every cell, interleaved, one Record per run.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "amdahl/machine.h"
#include "amdahl/record.h"
#include "measure/fleet.h"
#include "train/dataset.h"
#include "train/trainer_options.h"

namespace amdahl {

/// One configuration of the grid.
struct StudyCellSpec {
  int64_t global_batch = 0;
  int devices = 1;
  std::string strategy;
  LaunchMode launch = LaunchMode::eager;
  MathMode math = MathMode::fp32;
  bool extra = false;  // only shows an alternative on one device; has no influence on when a study stops
  std::optional<ParallelPlan> plan{};  // a plan of its own, in place of the study's options; `strategy` is its text
  int every = 1;  // measured in every `every`-th run, so that drift affects all cells of its group equally

  bool operator==(const StudyCellSpec&) const = default;
};

/// A request to trace steps [first, end) of one extra run of a cell after its group is measured. That run is not a
/// sample of the study.
struct TraceRequest {
  StudyCellSpec cell;
  int64_t first = 0, end = 0;
  std::function<void(StepTrace)> sink;  // on the root process
};

struct StudySettings {
  ModelSpec model;
  std::string data_name;
  std::vector<std::vector<StudyCellSpec>>
      groups;                      // cells whose runs are interleaved with each other: one group per batch size
  TrainerOptions trainer;          // launch and plan.strategy, plan.mesh and global_batch are set per cell
  MathMode math = MathMode::fp32;  // of the fleet's own operations
  std::function<std::unique_ptr<Ops>(Device&, MathMode)> make_ops;  // for cells with another math mode
  Scaling scaling = Scaling::strong;
  int runs = 50, warmup = 10, steps = 100;
  int pool_batches = 4;  // distinct resident batches that the steps cycle through
  double rel_ci = 0;
  bool brief = false;  // no warm-up before the first run but its own, and a step account of one round in the first run
  std::optional<TraceRequest> trace;
  int first_run = 0, end_run = -1;  // runs of this process, [first_run, end_run); -1: to the last
  int process = -1;                 // its number, an axis of its records; -1: one process does all runs
  Provenance provenance;

  int runs_end() const { return end_run < 0 ? runs : end_run; }
};

/// The plan of a cell.
ParallelPlan plan_of(const StudySettings& settings, const StudyCellSpec& cell);

/// Identifies a run of a cell; a resumed study recognises its records by this key.
std::string run_key(const StudyCellSpec& cell, int64_t run);

/// Step times in us of the runs that a resumed study already has, by run key. Processes other than the root need the
/// keys only.
using EarlierRuns = std::map<std::string, double>;

/// Runs all runs that are not in `done`. `sink` gets each Record as it completes, on the root process. Cells that do
/// not fit into memory beside each other take turns, and are warmed up again; one that does not fit at all gives one
/// failed Record and the others continue. The order of the cells in a group alternates from run to run (A B, B A), so
/// that drift of the machine affects every cell equally.
void run_study_cells(Fleet& fleet, const Dataset& data, const StudySettings& settings, const EarlierRuns& done,
                     const std::function<void(const Record&)>& sink, Observer& observer);

/// Whether a cell is measured in this run of its group.
bool takes_part(const StudyCellSpec& cell, int run);
/// The cells of a group, by number, in the order in which a run goes through them. From one run of two cells to their
/// next it is reversed if they have the same `every`, or one of them is in every run.
std::vector<size_t> order_of_run(const std::vector<StudyCellSpec>& cells, int run);
/// Number of runs of a cell.
int runs_of(const StudySettings& settings, const StudyCellSpec& cell);

}  // namespace amdahl
