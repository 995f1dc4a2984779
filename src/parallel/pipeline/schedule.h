// Schedules of pipeline parallelism: which forward and backward passes a rank computes, in which order, as plain data.
//
// A schedule holds no devices and no times: `simulate.h` computes how long it takes with given times and detects
// deadlocks, and an executor runs `actions[rank]` in order. A kind is a row of the table in schedule.cpp: to add one,
// write its function there and add the row; the tests then cover it without further edits.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "amdahl/error.h"

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

enum class ScheduleKind {
  gpipe,        // all forwards, then all backwards (Huang et al., 2019, arXiv:1811.06965)
  one_f_one_b,  // one forward, one backward, with a flush: PipeDream-flush (Narayanan et al., 2021, arXiv:2006.09503)
  interleaved,  // 1F1B with several chunks of the model per rank (Narayanan et al., 2021, arXiv:2104.04473)
  zb_h1,        // 1F1B with weight gradients in the bubble, same memory (Qi et al., 2023, arXiv:2401.10241, 2.1)
  zb_v,         // two chunks per rank in the shape of a V, no bubble at equal times (the same, section 6)
};

/// Every kind, in the order above.
const std::vector<ScheduleKind>& schedule_kinds();

/// "gpipe", "1f1b", "interleaved", "zb-h1", "zb-v".
std::string_view to_string(ScheduleKind kind);

/// The kind of that name. Error{usage} with the nearest name and the list.
ScheduleKind find_schedule_kind(std::string_view name);

struct PipelineSchedule {
  ScheduleKind kind = ScheduleKind::gpipe;
  int num_ranks = 0;
  int num_stages = 0;  // of all ranks together
  int num_micro_batches = 0;
  std::vector<int> rank_of_stage;
  std::vector<std::vector<Action>> actions;  // by rank, in the order of execution
  bool operator==(const PipelineSchedule&) const = default;
};

/// Whether the kind is defined for these numbers. If not, the reason names the nearest numbers that are feasible.
///
/// `chunks` is the number of stages that every rank holds: 1 for gpipe, 1f1b and zb-h1, at least 2 for interleaved
/// (rank r holds stages r, p + r, 2p + r, ... of p ranks; micro-batches must be a multiple of the ranks) and 2 for zb-v
/// (rank r holds stages r and 2p - 1 - r). More than 2^24 forwards of all ranks together are not feasible.
Feasibility schedule_feasible(ScheduleKind kind, int num_ranks, int num_micro_batches, int chunks);

/// Throws Error{usage} with the reason when the numbers are not feasible.
void require_schedule_feasible(ScheduleKind kind, int num_ranks, int num_micro_batches, int chunks);

/// Makes the schedule; it passes `check_schedule` and has no deadlock. Error{usage} when it is not feasible.
PipelineSchedule make_schedule(ScheduleKind kind, int num_ranks, int num_micro_batches, int chunks = 1);

/// Checks that every stage has exactly one forward of every micro-batch and either one `backward` or one
/// `backward_input` and one `backward_weight`, all on the rank that holds the stage, and that no rank runs an action
/// before the actions of the same rank that it depends on. Error{check_failed} names the first violation. Deadlocks
/// between ranks are found by `simulate`.
void check_schedule(const PipelineSchedule& schedule);

/// One line per action under the header "rank,index,action,stage,micro_batch"; index counts the actions of its rank.
std::string schedule_to_csv(const PipelineSchedule& schedule);

/// Reads what `schedule_to_csv` writes; lines of different ranks may be mixed, "\r\n" ends a line too. The text does
/// not hold the kind, so that schedules made elsewhere can be read; ranks, stages and micro-batches are counted from
/// it. Error{data_corrupt} names the line, the defect and what is expected. `check_schedule` checks that the actions
/// are a complete schedule; this does not.
PipelineSchedule schedule_from_csv(std::string_view text, ScheduleKind kind);

/// The largest number of activations that the rank holds at once. An activation is of one micro-batch in one stage, and
/// is held from the start of its forward to the end of the last part of its backward; a delayed weight gradient keeps
/// it until then. With `chunks` stages per rank, one activation is 1/chunks of that of the rank's whole part of the
/// model. For schedules that pass `check_schedule`; Error{usage} for a rank that does not exist.
int peak_activations(const PipelineSchedule& schedule, int rank);

}  // namespace amdahl
