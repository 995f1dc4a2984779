#include "parallel/pipeline/simulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

namespace amdahl {
namespace {

constexpr double kNotYet = -1;

void require_time(double time_us, const std::string& what) {
  if (!std::isfinite(time_us) || time_us < 0)
    throw Error(Cause::usage, fmt::format("pipeline times: {} takes {} us", what, time_us),
                "finite times from 0 us up");
}

void require_stage_times(const StageTimes& times, const std::string& stage) {
  require_time(times.forward_us, "forward of " + stage);
  require_time(times.backward_input_us, "backward-input of " + stage);
  require_time(times.backward_weight_us, "backward-weight of " + stage);
}

void require_times(const PipelineSchedule& schedule, const PipelineTimes& times) {
  if (times.stages.size() != static_cast<size_t>(schedule.num_stages))
    throw Error(Cause::usage,
                fmt::format("pipeline times: {} stages have times, the schedule has {} stages", times.stages.size(),
                            schedule.num_stages),
                "times for every stage");
  for (size_t stage = 0; stage < times.stages.size(); ++stage)
    require_stage_times(times.stages[stage], fmt::format("stage {}", stage));
  require_time(times.transfer_us, "a transfer");
  if (!times.slowdowns.empty() && times.slowdowns.size() != schedule.actions.size())
    throw Error(Cause::usage,
                fmt::format("pipeline times: {} slowdowns for {} ranks", times.slowdowns.size(), schedule.num_ranks),
                "one for each number of ranks at work, or none");
  for (const double slowdown : times.slowdowns)
    if (!std::isfinite(slowdown) || slowdown < 1)
      throw Error(Cause::usage, fmt::format("pipeline times: a slowdown of {}", slowdown), "finite factors from 1 up");
  if (times.actions_us.empty()) return;
  bool fits = times.actions_us.size() == schedule.actions.size();
  for (size_t rank = 0; fits && rank < schedule.actions.size(); ++rank)
    fits = times.actions_us[rank].size() == schedule.actions[rank].size();
  if (!fits)
    throw Error(Cause::usage, "pipeline times: not every action of the schedule has one", "times for every action");
  for (size_t rank = 0; rank < schedule.actions.size(); ++rank)
    for (size_t index = 0; index < schedule.actions[rank].size(); ++index)
      require_time(times.actions_us[rank][index], describe(schedule.actions[rank][index]));
}

class Simulation {
 public:
  Simulation(const PipelineSchedule& schedule, const PipelineTimes& times)
      : schedule_(schedule),
        times_(times),
        next_(schedule.actions.size(), 0),
        free_us_(schedule.actions.size(), 0),
        forward_end_us_(cells(), kNotYet),
        gradient_end_us_(cells(), kNotYet) {
    result_.times.resize(schedule.actions.size());
    result_.busy_us.resize(schedule.actions.size(), 0);
  }

  SimulatedPipeline run() {
    times_.slowdowns.empty() ? run_apart() : run_together();
    require_end();
    summarize();
    return std::move(result_);
  }

 private:
  size_t cells() const {
    return static_cast<size_t>(schedule_.num_stages) * static_cast<size_t>(schedule_.num_micro_batches);
  }
  size_t cell(int stage, int micro_batch) const {
    return static_cast<size_t>(stage) * static_cast<size_t>(schedule_.num_micro_batches) +
           static_cast<size_t>(micro_batch);
  }
  int rank_of(int stage) const { return schedule_.rank_of_stage[static_cast<size_t>(stage)]; }

  double duration_us(size_t rank) const {
    if (!times_.actions_us.empty()) return times_.actions_us[rank][next_[rank]];
    const Action& action = schedule_.actions[rank][next_[rank]];
    const StageTimes& stage = times_.stages[static_cast<size_t>(action.stage)];
    switch (action.kind) {
      case ActionKind::forward:
        return stage.forward_us;
      case ActionKind::backward:
        return stage.backward_input_us + stage.backward_weight_us;
      case ActionKind::backward_input:
        return stage.backward_input_us;
      case ActionKind::backward_weight:
        return stage.backward_weight_us;
    }
    throw Error(Cause::internal, "an action of a pipeline has no time");
  }

  /// The action of another stage that this action depends on. Dependences within its own stage precede it in the rank's
  /// order, as verified by check_schedule.
  std::optional<Action> input_of(const Action& action) const {
    if (action.kind == ActionKind::forward) {
      if (action.stage == 0) return std::nullopt;
      return Action{ActionKind::forward, action.stage - 1, action.micro_batch};
    }
    if (action.kind == ActionKind::backward_weight || action.stage == schedule_.num_stages - 1) return std::nullopt;
    return Action{ActionKind::backward_input, action.stage + 1, action.micro_batch};
  }

  bool has_next(size_t rank) const { return next_[rank] < schedule_.actions[rank].size(); }

  /// When the rank is free and the input of its next action has arrived; nothing while that input is not yet computed.
  std::optional<double> ready_us(size_t rank) const {
    const Action& action = schedule_.actions[rank][next_[rank]];
    const std::optional<Action> input = input_of(action);
    if (!input) return free_us_[rank];
    const std::vector<double>& ends = input->kind == ActionKind::forward ? forward_end_us_ : gradient_end_us_;
    const double end_us = ends[cell(input->stage, input->micro_batch)];
    if (end_us < 0) return std::nullopt;
    const bool travels = rank_of(input->stage) != rank_of(action.stage);
    return std::max(free_us_[rank], end_us + (travels ? times_.transfer_us : 0));
  }

  /// The rank's next action ran.
  void note(size_t rank, double start_us, double end_us) {
    const Action& action = schedule_.actions[rank][next_[rank]];
    if (action.kind == ActionKind::forward) forward_end_us_[cell(action.stage, action.micro_batch)] = end_us;
    if (action.kind == ActionKind::backward || action.kind == ActionKind::backward_input)
      gradient_end_us_[cell(action.stage, action.micro_batch)] = end_us;
    result_.times[rank].push_back({start_us, end_us});
    result_.busy_us[rank] += end_us - start_us;
    free_us_[rank] = end_us;
    ++next_[rank];
  }

  /// Ranks do not slow each other: an action's end is known when it starts.
  void run_apart() {
    for (bool progress = true; progress;) {
      progress = false;
      for (size_t rank = 0; rank < next_.size(); ++rank)
        while (has_next(rank)) {
          const std::optional<double> start_us = ready_us(rank);
          if (!start_us) break;
          note(rank, *start_us, *start_us + duration_us(rank));
          progress = true;
        }
    }
  }

  /// An action of a rank at work.
  struct Running {
    double start_us = kNotYet, left_us = 0;  // `left_us` as if it ran alone
    bool now() const { return start_us >= 0; }
  };

  /// Ranks at work slow each other: from one begin or end of an action to the next.
  void run_together() {
    std::vector<Running> running(next_.size());
    for (double now_us = 0;;) {
      double next_us = std::numeric_limits<double>::infinity();
      size_t working = 0;
      for (size_t rank = 0; rank < next_.size(); ++rank) {
        if (!running[rank].now() && has_next(rank))
          if (const std::optional<double> start_us = ready_us(rank)) {
            if (*start_us <= now_us)
              running[rank] = {now_us, duration_us(rank)};
            else
              next_us = std::min(next_us, *start_us);
          }
        if (running[rank].now()) ++working;
      }
      const double slowdown = working > 0 ? times_.slowdowns[working - 1] : 1;
      for (const Running& action : running)
        if (action.now()) next_us = std::min(next_us, now_us + action.left_us * slowdown);
      if (std::isinf(next_us)) return;  // all have ended, or wait for each other
      for (size_t rank = 0; rank < next_.size(); ++rank) {
        if (!running[rank].now()) continue;
        const double end_us = now_us + running[rank].left_us * slowdown;
        running[rank].left_us = std::max(0.0, running[rank].left_us - (next_us - now_us) / slowdown);
        if (end_us > next_us) continue;
        note(rank, running[rank].start_us, next_us);
        running[rank] = {};
      }
      now_us = next_us;
    }
  }

  void require_end() const {
    std::string blocked;
    for (size_t rank = 0; rank < next_.size(); ++rank) {
      if (next_[rank] == schedule_.actions[rank].size()) continue;
      const Action& action = schedule_.actions[rank][next_[rank]];
      const Action input = input_of(action).value();  // only an action with an input can be blocked
      blocked +=
          fmt::format("{}rank {} is at {} and waits for the {} of stage {} on rank {}", blocked.empty() ? "" : "; ",
                      rank, describe(action), input.kind == ActionKind::forward ? "activations" : "gradients",
                      input.stage, rank_of(input.stage));
    }
    if (!blocked.empty())
      throw Error(Cause::check_failed, "the pipeline schedule has a deadlock: " + blocked,
                  "an order in which no ranks wait for each other");
  }

  void summarize() {
    for (size_t rank = 0; rank < next_.size(); ++rank) {
      result_.makespan_us = std::max(result_.makespan_us, free_us_[rank]);
      if (!result_.times[rank].empty())
        result_.longest_span_us =
            std::max(result_.longest_span_us, free_us_[rank] - result_.times[rank].front().start_us);
    }
    const double mean_us = std::accumulate(result_.busy_us.begin(), result_.busy_us.end(), 0.0) /
                           static_cast<double>(result_.busy_us.size());
    if (mean_us <= 0) return;
    const auto idle_share = [&](double whole_us) { return std::max(0.0, 1 - mean_us / whole_us); };
    result_.bubble_fraction = idle_share(result_.makespan_us);
    result_.bubble_to_ideal = std::max(0.0, result_.makespan_us / mean_us - 1);
    result_.span_bubble_fraction = idle_share(result_.longest_span_us);
  }

  const PipelineSchedule& schedule_;
  const PipelineTimes& times_;
  std::vector<size_t> next_;     // by rank: index of the next action
  std::vector<double> free_us_;  // by rank: end of its last action
  std::vector<double> forward_end_us_, gradient_end_us_;
  SimulatedPipeline result_;
};

}  // namespace

SimulatedPipeline simulate(const PipelineSchedule& schedule, const PipelineTimes& times) {
  check_schedule(schedule);
  require_times(schedule, times);
  return Simulation(schedule, times).run();
}

std::optional<double> bubble_formula(ScheduleKind kind, int num_ranks, int num_micro_batches, int chunks,
                                     const StageTimes& stage) {
  require_schedule_feasible(kind, num_ranks, num_micro_batches, chunks);
  require_stage_times(stage, "a stage");
  const double forward = stage.forward_us, input = stage.backward_input_us, weight = stage.backward_weight_us;
  const double behind = num_ranks - 1, whole = forward + input + weight;
  double idle_us = 0;
  switch (kind) {
    case ScheduleKind::gpipe:
    case ScheduleKind::one_f_one_b:
    case ScheduleKind::interleaved:
      idle_us = behind * whole;
      break;
    case ScheduleKind::zb_h1:
      idle_us = behind * std::max({forward, input, forward + input - weight}) +
                std::max(0, num_ranks - num_micro_batches) * std::min({forward, input, weight});
      break;
    case ScheduleKind::zb_v:
      if (forward != input || input != weight) return std::nullopt;
      idle_us = std::max(behind, 4 * behind - 2.0 * (num_micro_batches - 1)) * forward;
      break;
  }
  const double work_us = static_cast<double>(chunks) * num_micro_batches * whole;
  return work_us > 0 ? idle_us / (work_us + idle_us) : 0;
}

}  // namespace amdahl
