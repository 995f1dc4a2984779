// Simulated duration of a pipeline schedule with given stage times, and the published formulas for comparison.
#pragma once

#include <optional>
#include <vector>

#include "parallel/pipeline/schedule.h"

namespace amdahl {

/// Times of one stage for one micro-batch, in microseconds. A `backward` takes backward_input_us + backward_weight_us.
struct StageTimes {
  double forward_us = 0, backward_input_us = 0, backward_weight_us = 0;
};

struct PipelineTimes {
  std::vector<StageTimes> stages;  // by stage
  double transfer_us = 0;          // of one activation or gradient between different ranks; 0 within a rank
  /// Of every action by itself, by rank and index as `actions` of the schedule; empty: those of its stage.
  std::vector<std::vector<double>> actions_us{};
  /// By which actions take longer while so many ranks are at work at once: the first number is for one rank, one for
  /// each number of ranks. For ranks that share cores. Empty: ranks do not slow each other.
  std::vector<double> slowdowns{};
};

/// When an action runs, in microseconds since the first one started.
struct ActionTime {
  double start_us = 0, end_us = 0;
};

struct SimulatedPipeline {
  std::vector<std::vector<ActionTime>> times;  // by rank and index, as `actions` of the schedule
  double makespan_us = 0;                      // from the start to the end of the last action
  std::vector<double> busy_us;                 // by rank: sum of its actions, as long as they took
  /// Idle share of the ranks' time, 0 to 1: 1 - sum(busy) / (ranks * makespan). Includes the idle time of ranks that
  /// have less work than others. 0 when all times are 0.
  double bubble_fraction = 0;
  /// Idle time relative to work: makespan / mean(busy) - 1; "(p-1)/m" for 1F1B. 0 when all times are 0.
  double bubble_to_ideal = 0;
  /// The longest time from the start of a rank's first action to the end of its last one, in microseconds. The
  /// zero-bubble papers count this instead of the makespan (Qi et al., 2023, arXiv:2401.10241): when the optimizer does
  /// not synchronise the ranks, they also start the next step one after another.
  double longest_span_us = 0;
  double span_bubble_fraction = 0;  // bubble_fraction with longest_span_us instead of makespan_us, 0 to 1
};

/// Simulates the schedule: each rank runs its actions in order, and an action starts as soon as the rank is free and
/// its inputs have arrived. A transfer takes time but occupies neither a rank nor a link. With `slowdowns`, ranks that
/// are at work at once progress at the same reduced rate, which changes whenever one of them begins or ends an action.
/// Throws Error{check_failed} for the violations of `check_schedule` and for a deadlock, naming every blocked rank's
/// action and what it waits for; Error{usage} for times that are negative, not finite, or not one per stage and, where
/// they are given, per action, and for slowdowns that are not one per number of ranks, at least 1 and finite.
SimulatedPipeline simulate(const PipelineSchedule& schedule, const PipelineTimes& times);

/// `SimulatedPipeline::bubble_fraction` of `make_schedule`'s schedule when every stage takes `stage` and transfers take
/// no time: idle / (work + idle), where work = chunks * m * (F + B + W) is the work of one rank and F, B and W are the
/// times of one stage (of one chunk where a rank holds several). p ranks, m micro-batches. Idle time per rank:
/// - gpipe, 1f1b: (p - 1) (F + B + W), so that the fraction is (p - 1) / (m + p - 1) (Narayanan et al., 2021,
///   arXiv:2104.04473, 2.2.1);
/// - interleaved: the same with a chunk's times, so that it is (p - 1) / (chunks m + p - 1) (the same, 2.2.2);
/// - zb-h1: (p - 1) (F + B - W) (Qi et al., 2023, arXiv:2401.10241, section 2). Found for this schedule: that holds for
///   W <= F, W <= B and m >= p; in general it is (p - 1) max(F, B, F + B - W) + max(0, p - m) min(F, B, W), because the
///   last rank waits that long for its first input and the first one for its last gradient;
/// - zb-v: published as 0 for F = B = W (the same, section 6), which is the longest span's; the makespan's is
///   (p - 1) F, because ranks begin one after another. Found for this schedule: both hold for m >= 2p - 1, and with
///   fewer micro-batches it is (4 (p - 1) - 2 (m - 1)) F where that is more.
///
/// nullopt where no formula is known: zb-v with different F, B and W. Error{usage} when the schedule is not feasible or
/// a time is negative or not finite. 0 when all times are 0.
std::optional<double> bubble_formula(ScheduleKind kind, int num_ranks, int num_micro_batches, int chunks,
                                     const StageTimes& stage);

}  // namespace amdahl
