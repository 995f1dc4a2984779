// Schedules of pipeline parallelism: which forward and backward passes a rank computes, in which order, as plain data.
//
// A schedule holds no devices and no times: `simulate.h` computes how long it takes with given times and detects
// deadlocks, and an executor runs `actions[rank]` in order. A kind is a row of the table in plan/pipeline_kinds.cpp and
// one in schedule.cpp with its function; the tests then cover it without further edits.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "plan/pipeline_kinds.h"

namespace amdahl {

enum class ActionKind {
  forward,
  backward,         // gradients of inputs and of weights in one call
  backward_input,   // gradients of the stage's inputs, which the previous stage waits for
  backward_weight,  // gradients of the stage's weights, which no other stage waits for
};

/// "forward", "backward", "backward-input", "backward-weight": the names in CSV and messages.
std::string_view to_string(ActionKind kind);

struct Action {
  ActionKind kind = ActionKind::forward;
  int stage = 0;        // index in the whole model, from 0; a "virtual stage" where a rank holds several
  int micro_batch = 0;  // index from 0
  auto operator<=>(const Action&) const = default;
};

/// "forward of stage 1, micro-batch 2".
std::string describe(const Action& action);

struct PipelineSchedule {
  ScheduleKind kind = ScheduleKind::gpipe;
  int num_ranks = 0;
  int num_stages = 0;  // of all ranks together
  int num_micro_batches = 0;
  std::vector<int> rank_of_stage;
  std::vector<std::vector<Action>> actions;  // by rank, in the order of execution
  bool operator==(const PipelineSchedule&) const = default;
};

/// Makes the schedule; it passes `check_schedule` and has no deadlock. Error{usage} when it is not feasible.
PipelineSchedule make_schedule(ScheduleKind kind, int num_ranks, int num_micro_batches, int chunks = 1);

/// Checks that every stage has exactly one forward of every micro-batch and either one `backward` or one
/// `backward_input` and one `backward_weight`, all on the rank that holds the stage, and that no rank runs an action
/// before the actions of the same rank that it depends on. Error{check_failed} names the first violation. Deadlocks
/// between ranks are found by `simulate`.
void check_schedule(const PipelineSchedule& schedule);

/// The largest number of activations that the rank holds at once. An activation is of one micro-batch in one stage, and
/// is held from the start of its forward to the end of the last part of its backward; a delayed weight gradient keeps
/// it until then. With `chunks` stages per rank, one activation is 1/chunks of that of the rank's whole part of the
/// model. For schedules that pass `check_schedule`; Error{usage} for a rank that does not exist.
int peak_activations(const PipelineSchedule& schedule, int rank);

/// Whether the last part of a backward pass ends with it.
inline bool ends_backward(ActionKind kind) {
  return kind == ActionKind::backward || kind == ActionKind::backward_weight;
}

/// The slot of each micro-batch of a stage, which keeps what its backward pass reads, and the number of slots.
struct StageSlots {
  std::vector<int> of_micro_batch;
  int count = 0;
};
StageSlots assign_slots(const PipelineSchedule& schedule, int stage);
/// That number for each stage of make_schedule's schedule.
std::vector<int> slots_of_stages(ScheduleKind kind, int num_ranks, int num_micro_batches, int chunks);

}  // namespace amdahl
