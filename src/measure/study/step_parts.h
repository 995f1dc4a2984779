// Times of a step's parts without stamps inside the step: steps with parts left out, each timed like the full step.
#pragma once

#include <memory>

#include "measure/study/stage_account.h"
#include "measure/study/step_variants.h"
#include "measure/training/batch_pool.h"

namespace amdahl {

/// Untimed steps before a timed block. The host gets ahead of the device while they run, so that the first timed step
/// does not include the host's wake-up from a wait.
constexpr int kLeadSteps = 3;

/// Times of one rank in us per step, in the launch mode of the study. The *_work times are device busy time without
/// launch gaps: measured by replaying one graph where the device has graphs, else by the stream's own count of its busy
/// time.
struct PartTimes {
  double full = 0;             // the step as it trains
  double staged = 0;           // without scattering or copying the input; equals `full` where it is in place
  double local = 0;            // without communication; equals `staged` where there is none
  double local_work = 0;       // the same without launch gaps
  double backward_work = 0;    // forward, loss and backward
  double forward_work = 0;     // forward and loss
  double launch_floor = 0;     // time of `launch_kernels` empty kernels in one graph; 0 when none was captured
  double launch_kernels = 0;   // number of nodes of the graph of `local`
  double noise = 0;            // half the range of `full` over the rounds
  double fused_update = 0;     // 1: backward of the full step also updates parameters, see GradientSync
  StampedTimes communication;  // of one stamped step; empty without communication
  double tensor = 0;           // sums of tensor parallelism: the step less one without them
  double has_stages = 0;       // 1: `stages` is the account, and the times without parts are those of the full step
  StageParts stages;
};

class PartTimer {
 public:
  /// `launch`: the launch mode of the study. `brief`: one round of few steps. All references must outlive the timer.
  PartTimer(Trainer& trainer, StepProbes& probes, BatchPool& pool, LaunchMode launch, double timeout_seconds,
            bool brief = false);

  /// Medians over a few rounds; each round times a block of steps per part, so that drift affects all parts equally.
  /// `step_us`: approximate time of a step. Collective over the ranks. Leaves parameters that training would not
  /// produce: reset the trainer.
  PartTimes measure(double step_us);
  /// One round of measure, so that graphs are captured and algorithms chosen. Collective.
  void warm_up(double step_us);

 private:
  struct Block {
    double wall_us = 0, busy_us = -1;  // per step; busy_us is negative where the device does not count it
    double work_us() const { return busy_us >= 0 ? busy_us : wall_us; }
  };

  void prepare();
  PartTimes one_round(int steps);
  /// `with_input`: the batches come as in training; else every step finds one on the device.
  Block timed(const StepWork& work, LaunchMode mode, int steps, bool with_input = false);
  PartTimes measure_stages(int steps);
  double message_us(int steps);
  double median_us(const StepWork& work, int steps, double* noise = nullptr);
  double tensor_us(int steps, double full_us);
  double timed_floor(int steps);

  Trainer& trainer_;
  TrainingParts& parts_;
  RankContext& rank_;
  StepProbes& probes_;
  BatchPool& pool_;
  const bool prefetches_;           // equal on all ranks, also those that get their rows from rank 0
  const LaunchMode launch_, work_;  // `work_`: launch mode of the *_work times
  const double timeout_seconds_;
  const bool brief_;
  int rounds_;
  int lead_steps_ = kLeadSteps;
  bool prepared_ = false;
  std::unique_ptr<Event> start_, end_;
};

}  // namespace amdahl
