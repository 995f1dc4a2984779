// What a step's parts take, without stamps inside: steps with parts left out, each timed as the real step is.
#pragma once

#include <memory>

#include "measure/training/batch_pool.h"
#include "train/trainer.h"

namespace amdahl {

/// Untimed steps before a timed block: while they run, the host gets ahead of the device, so that the first timed step
/// does not wait for a host that comes out of a wait.
constexpr int kLeadSteps = 3;

/// Times of one rank in us per step, in the launch mode of the study. Those named work are what the device is busy
/// with, without the gaps of launching: by replaying one graph where the device has graphs, else by the stream's own
/// count of its busy time.
struct PartTimes {
  double full = 0;             // the step as it trains
  double staged = 0;           // without handing out the input; `full` where none is handed out
  double local = 0;            // without communication; `staged` where there is none
  double local_work = 0;       // likewise
  double backward_work = 0;    // forward, loss and backward
  double forward_work = 0;     // forward and loss
  double launch_floor = 0;     // of `launch_kernels` empty kernels in one graph; 0 where none was captured
  double launch_kernels = 0;   // as many as `local` has nodes in a graph
  double noise = 0;            // half the range of the rounds of `full`
  double fused_update = 0;     // 1: backward of the full step also updates parameters, see Trainer::fuses_update
  StampedTimes communication;  // of one stamped step; empty without communication
};

class PartTimer {
 public:
  /// `launch`: of the study. Everything outlives the timer.
  PartTimer(const RankContext& rank, Trainer& trainer, const BatchPool& pool, LaunchMode launch,
            double timeout_seconds);

  /// Medians over a few rounds of blocks of steps, parts in turns, so that drift hits each alike. `step_us` is about
  /// what a step takes. Collective over the ranks. Leaves parameters behind that no training makes: reset the trainer.
  PartTimes measure(double step_us);

 private:
  struct Block {
    double wall_us = 0, busy_us = -1;  // per step; busy negative where the device does not count
    double work_us() const { return busy_us >= 0 ? busy_us : wall_us; }
  };
  struct Rounds;

  void prepare();
  double agreed(double step_us);
  void one_round(int steps, Rounds& rounds);
  Block timed(StepPart part, LaunchMode mode, int steps);
  double timed_floor(int steps);

  RankContext rank_;
  Trainer& trainer_;
  const BatchPool& pool_;
  const LaunchMode launch_, work_;  // `work_`: how work is timed
  const double timeout_seconds_;
  bool prepared_ = false;
  std::unique_ptr<Event> start_, end_;
};

}  // namespace amdahl
