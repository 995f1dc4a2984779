// One cell of a study on one rank. The trainer and the resident batches are kept from run to run.
#pragma once

#include <memory>
#include <optional>

#include "device/host_load.h"
#include "measure/sampling/warm_up.h"
#include "measure/study/runner.h"
#include "measure/study/step_parts.h"
#include "measure/training/batch_pool.h"
#include "measure/training/trace_run.h"

namespace amdahl {

/// What one rank measured in one run.
struct RankRun {
  double step_us = 0;
  double loss_first = 0, loss_last = 0;
  double memory_peak_bytes = 0;
  double utilisation_percent = -1;
  double comm_bytes = 0;  // payload of one step
  double clock_before_mhz = -1, clock_after_mhz = -1, temperature_c = -1, power_w = -1;
  double energy_j = -1;  // of the GPU over the timed steps; negative: not read, or too short to measure
  double throttle_reasons = 0;
  double warmup_steps = -1, warmup_us = -1, warmup_drift_percent = 0, warmup_settled = 0;  // negative: no warm-up
  double warmup_rehearsals = 0;
  double steps_behind = 0;                   // the most, of a gradient behind the parameters it updates
  double loss_scale = 0, skipped_steps = 0;  // in fp16; a scale of 0: none
  ProcessLoad host_load;                     // during the timed steps; of CPU virtual devices
  PartTimes parts;
};

/// Energy in J between two readings of a GPU's energy counter `seconds` apart. -1 without readings, and for less than 2
/// s: the counter advances every 0.1 s, so the error would exceed 5 %.
double metered_energy_j(double before_j, double after_j, double seconds);

class StudyCellRank {
 public:
  StudyCellRank(const RankContext& rank, const TrainerOptions& options, const Dataset& data,
                const StudySettings& settings);

  /// Call once, before the first run: a warm-up that ends when clocks and times are stable, then runs that are
  /// discarded. One-time costs of first runs (graphs, clocks, caches, allocations) are then paid before every counted
  /// run. Collective over the cell's ranks.
  void prepare(int discarded_runs);
  /// Fresh weights, warm-up steps, timed steps, steps with parts left out. Collective over the cell's ranks.
  RankRun run();
  /// Fresh weights, `first` steps, then steps up to `end` with stamps of every piece. Not a sample of the study.
  RankTrace trace(int64_t first, int64_t end);

 private:
  enum class Account { none, discarded, measured };
  RankRun measure(int steps, Account account);
  /// Whether the run that begins has a step account: ten of a cell's runs do, at equal distances; of a brief study the
  /// first. Counts the runs.
  bool accounts();
  void one_step(size_t batch);
  /// Of later collectives, and of later waits of the host.
  void set_timeouts(double collective_seconds, double host_seconds);
  WarmUp warm_up();
  /// Mean time in us of one of `steps` steps, after `lead` untimed ones.
  double timed_steps(int lead, int steps, RankRun* run);

  RankContext rank_;
  TrainerOptions options_;
  const StudySettings& settings_;
  size_t bytes_before_;  // allocated on the device by others, before this cell
  // Referenced by the trainer's graphs, so declared before it.
  std::vector<std::unique_ptr<StepStamps>> trace_stamps_;
  StepProbes probes_;
  Trainer trainer_;
  BatchPool pool_;
  PartTimer parts_;
  size_t own_bytes_;
  std::optional<WarmUp> warmed_;  // set by prepare(), cleared by the run that reports it
  int discarded_ = 0;
  int num_runs_ = 0;  // begun by this process
  double given_timeout_seconds_;
  double longest_step_us_ = 0;  // of the warm-up, on the slowest rank
  double comm_bytes_ = -1;      // payload of one step; counted once: replayed graphs make no host calls
  std::unique_ptr<Event> start_, end_;
};

/// Every rank's run, on every rank.
std::vector<RankRun> gather_runs(Communicator& communicator, const RankRun& mine, Deadline deadline);

/// Sets the series of `record` from the measurements of every rank. `modelled`: bytes of one device.
void fill_record(Record& record, const std::vector<RankRun>& ranks, const ModelSpec& model, const ParallelPlan& plan,
                 int64_t modelled);

}  // namespace amdahl
