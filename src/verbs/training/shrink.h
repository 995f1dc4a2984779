// A training that goes on with fewer ranks after one died.
#pragma once

#include <optional>
#include <string>

#include "amdahl/training.h"
#include "train/trainer_state.h"

namespace amdahl {

/// What a process knows of its training when a rank dies.
struct TrainingSoFar {
  ModelSpec model;         // fitted to the data
  ParallelPlan plan;       // with its batch; of no device before the training is set up
  int64_t steps = 0;       // finished, counted from the beginning of the training
  std::string job;         // by which those left know each other when they meet again: no other job has it
  std::string output_dir;  // rank 0's
};

/// What the message about a smaller job says.
struct Shrunk {
  int dead = -1;
  std::string old_plan, new_plan;
  int64_t steps = 0;  // finished when the rank died
};

/// Error{usage} for another word than stop and shrink, and for shrink without checkpoints or without other processes.
void check_on_failure(const TrainConfig& config);

/// Whether the training goes on after this error.
bool goes_on_after(const TrainConfig& config, const Error& error, const TrainingSoFar& so_far);

/// The configuration with which this process goes on: its rank among those left, another port, the nearest plan of as
/// many ranks as possible. nullopt for a process that the plan has no use for. Throws `error` when no plan is feasible,
/// and when rank 0 died and the host of the next one is not known.
std::optional<TrainConfig> shrink_training(const TrainConfig& config, const Error& error, const TrainingSoFar& so_far,
                                           Shrunk* shrunk);

/// Drops error feedback from the state of a shrunk training whose plan sends whole gradients, as that of one rank does.
/// Returns the message about it; empty when nothing was dropped.
std::string drop_unused_feedback(const ParallelPlan& plan, TrainerState& state);

/// "rank 1 died after step 57: plan dp2 in place of dp3 goes on from step 50, 7 steps of work are lost".
std::string shrunk_text(const Shrunk& shrunk, int64_t resumed_step);

}  // namespace amdahl
