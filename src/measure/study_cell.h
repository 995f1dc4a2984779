// One cell of a study on one rank: trainer and resident batches, kept from run to run.
#pragma once

#include <memory>

#include "measure/batch_pool.h"
#include "measure/step_account.h"
#include "measure/study_runner.h"
#include "measure/trace_run.h"

namespace amdahl {

/// What one rank measured in one run.
struct RankRun {
  double step_us = 0;
  double loss_first = 0, loss_last = 0;
  double memory_peak_bytes = 0;
  double utilisation_percent = -1;
  double comm_bytes = 0;  // payload of one step
  double clock_before_mhz = -1, clock_after_mhz = -1, temperature_c = -1, power_w = -1;
  double energy_j = -1;  // of the card over the timed steps; negative: not read, or too short for its meter
  double throttle_reasons = 0;
  std::vector<StepTimes> accounted;
};

/// J between two readings of a card's energy meter that are `seconds` apart, or -1: without readings, and for less than
/// 2 s, of which a meter that moves on every tenth of a second would miss more than 5 %.
double metered_energy_j(double before_j, double after_j, double seconds);

class StudyCellRank {
 public:
  StudyCellRank(const RankContext& rank, const TrainerOptions& options, const Dataset& data,
                const StudySettings& settings);

  /// Fresh weights, warm-up, timed steps, instrumented steps. Collective over the cell's ranks.
  RankRun run();
  /// Fresh weights, `first` steps, then steps up to `end` with stamps of every piece. No sample of the study.
  RankTrace trace(int64_t first, int64_t end);
  /// Microseconds of one step over a few steps.
  double probe(int steps);

 private:
  void warm_up();
  double timed_steps(int steps, RankRun* run);
  std::vector<StepTimes> instrumented_steps(LaunchMode mode);
  std::vector<StepTimes> accounted_steps();

  RankContext rank_;
  TrainerOptions options_;
  const StudySettings& settings_;
  size_t bytes_before_;                                    // allocated on the device by others, before this cell
  std::vector<std::unique_ptr<StepStamps>> trace_stamps_;  // graphs of the trainer hold them
  Trainer trainer_;
  BatchPool pool_;
  size_t own_bytes_;
  bool warm_ = false;       // an earlier run has warmed this cell up
  double comm_bytes_ = -1;  // payload of one step; counted once, since replayed graphs make no calls
  std::unique_ptr<Event> start_, end_;
};

/// Every rank's run, on every rank.
std::vector<RankRun> gather_runs(Communicator& communicator, const RankRun& mine, Deadline deadline);

}  // namespace amdahl
