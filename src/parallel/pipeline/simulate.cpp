#include "parallel/pipeline/simulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
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
    for (bool progress = true; progress;) {
      progress = false;
      for (size_t rank = 0; rank < next_.size(); ++rank)
        while (next_[rank] < schedule_.actions[rank].size() && advance(rank)) progress = true;
    }
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

  /// Runs the rank's next action; returns false when its input is not yet simulated.
  bool advance(size_t rank) {
    const Action& action = schedule_.actions[rank][next_[rank]];
    double start_us = free_us_[rank];
    if (const std::optional<Action> input = input_of(action)) {
      const std::vector<double>& ends = input->kind == ActionKind::forward ? forward_end_us_ : gradient_end_us_;
      const double end_us = ends[cell(input->stage, input->micro_batch)];
      if (end_us < 0) return false;
      const bool travels = rank_of(input->stage) != rank_of(action.stage);
      start_us = std::max(start_us, end_us + (travels ? times_.transfer_us : 0));
    }
    const double duration = duration_us(rank), end_us = start_us + duration;
    if (action.kind == ActionKind::forward) forward_end_us_[cell(action.stage, action.micro_batch)] = end_us;
    if (action.kind == ActionKind::backward || action.kind == ActionKind::backward_input)
      gradient_end_us_[cell(action.stage, action.micro_batch)] = end_us;
    result_.times[rank].push_back({start_us, end_us});
    result_.busy_us[rank] += duration;
    free_us_[rank] = end_us;
    ++next_[rank];
    return true;
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
