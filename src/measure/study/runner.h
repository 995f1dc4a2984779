// The study: runs of every cell, interleaved, one Record per run.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "amdahl/amdahl.h"
#include "amdahl/trace.h"
#include "measure/fleet.h"
#include "train/dataset.h"

namespace amdahl {

/// One configuration of the grid.
struct StudyCellSpec {
  int64_t global_batch = 0;
  int devices = 1;
  std::string strategy;
  LaunchMode launch = LaunchMode::eager;
  MathMode math = MathMode::fp32;
  bool extra = false;  // only shows what one device could do otherwise: decides nothing about when a study stops
  int every = 1;       // takes part in every so-many-th run, so that drift reaches all of its group alike

  bool operator==(const StudyCellSpec&) const = default;
};

/// A cell whose steps [first, end) of one more run, none of the study's samples, are traced after its group is
/// measured.
struct TraceRequest {
  StudyCellSpec cell;
  int64_t first = 0, end = 0;
  std::function<void(StepTrace)> sink;  // on the root process
};

struct StudySettings {
  ModelSpec model;
  std::string data_name;
  std::vector<std::vector<StudyCellSpec>>
      groups;                      // cells that are interleaved with each other: one group per batch size
  TrainerOptions trainer;          // launch and plan.strategy, plan.mesh and global_batch are set per cell
  MathMode math = MathMode::fp32;  // of the fleet's own operations
  std::function<std::unique_ptr<Ops>(Device&, MathMode)> make_ops;  // of cells with another math mode
  Scaling scaling = Scaling::strong;
  int runs = 50, warmup = 10, steps = 100;
  int pool_batches = 4;  // distinct resident batches that the steps cycle through
  double rel_ci = 0;
  std::optional<TraceRequest> trace;
  int first_run = 0, end_run = -1;  // of a process that does a part of the runs; -1: to the last
  int process = -1;                 // its number, an axis of its records; -1: one process does all
  Provenance provenance;

  int runs_end() const { return end_run < 0 ? runs : end_run; }
};

/// Names a run of a cell; the records of a resumed study are recognised by it.
std::string run_key(const StudyCellSpec& cell, int64_t run);

/// Step times in us of the runs that a resumed study already has, by run key. Processes other than the root need the
/// keys only.
using EarlierRuns = std::map<std::string, double>;

/// Runs what `done` does not hold yet. `sink` gets each Record as it completes, on the root process. A cell that does
/// not fit into memory becomes one failed Record and the others go on. Runs of a group alternate A B, B A, so that
/// drift of the machine hits every cell alike.
void run_study_cells(Fleet& fleet, const Dataset& data, const StudySettings& settings, const EarlierRuns& done,
                     const std::function<void(const Record&)>& sink, Observer& observer);

/// Whether a cell is measured in a run of its group.
bool takes_part(const StudyCellSpec& cell, int run);
/// Runs of a cell.
int runs_of(const StudySettings& settings, const StudyCellSpec& cell);

/// Seconds that all runs of the grid are expected to take, from a few untimed steps of each cell.
double probe_study_seconds(Fleet& fleet, const Dataset& data, const StudySettings& settings);

/// Modelled bytes per device: parameters, gradients and optimizer state, activations, resident batches, staging.
int64_t modelled_memory_bytes(const StudySettings& settings, const StudyCellSpec& cell, int64_t data_rows);

}  // namespace amdahl
