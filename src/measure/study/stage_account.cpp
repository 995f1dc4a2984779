#include "measure/study/stage_account.h"

#include <algorithm>

#include "comm/device_mesh.h"
#include "measure/sampling/rank_results.h"
#include "parallel/pipeline/simulate.h"
#include "plan/plan_rules.h"

namespace amdahl {
namespace {

struct ActionTimes {
  std::vector<double> us;  // in the order of the rank's schedule
};

template <class Archive>
void visit_fields(Archive& archive, ActionTimes& times) {
  archive(times.us);
}

/// Times of every action: means over the ranks that hold the same stages.
std::vector<std::vector<double>> mean_times(const std::vector<ActionTimes>& ranks, const Mesh& mesh) {
  std::vector<std::vector<double>> means(static_cast<size_t>(mesh.pp));
  const double share = static_cast<double>(mesh.pp) / mesh.size();
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    std::vector<double>& mean = means[static_cast<size_t>(place_of(mesh, static_cast<int>(rank)).pp)];
    mean.resize(ranks[rank].us.size());
    for (size_t i = 0; i < mean.size(); ++i) mean[i] += share * ranks[rank].us[i];
  }
  return means;
}

/// Means over the micro-batches of every stage.
std::vector<StageTimes> stage_means(const PipelineSchedule& schedule,
                                    const std::vector<std::vector<double>>& actions_us) {
  std::vector<StageTimes> stages(static_cast<size_t>(schedule.num_stages));
  const double share = 1.0 / schedule.num_micro_batches;
  for (size_t rank = 0; rank < schedule.actions.size(); ++rank)
    for (size_t i = 0; i < schedule.actions[rank].size(); ++i) {
      const Action& action = schedule.actions[rank][i];
      StageTimes& stage = stages[static_cast<size_t>(action.stage)];
      double& sum = action.kind == ActionKind::forward           ? stage.forward_us
                    : action.kind == ActionKind::backward_weight ? stage.backward_weight_us
                                                                 : stage.backward_input_us;
      sum += share * actions_us[rank][i];
    }
  return stages;
}

}  // namespace

StageParts divide_stages(const RankContext& rank, const ParallelPlan& plan, const StampedStages& stamped,
                         double full_us, double message_us, Deadline deadline) {
  ActionTimes own;
  for (const StampedStages::StageTime& time : stamped.actions) own.us.push_back(time.us);
  const PipelineSchedule schedule =
      make_schedule(schedule_of(plan), plan.mesh.pp, static_cast<int>(plan.accumulate), chunks_of(plan));
  PipelineTimes times;
  times.actions_us = mean_times(exchange_results(rank.communicator, own, deadline), plan.mesh);
  times.stages = stage_means(schedule, times.actions_us);
  const SimulatedPipeline simulated = simulate(schedule, times);
  times.actions_us.clear();
  const auto place = static_cast<size_t>(place_of(plan.mesh, rank.rank).pp);
  const double idle = simulated.makespan_us - simulated.busy_us[place];
  const double scale = stamped.step > 0 ? std::min(1.0, full_us / stamped.step) : 1.0;
  StageParts parts;
  for (const StampedStages::StageTime& time : stamped.actions)
    (time.kind == ActionKind::forward ? parts.forward : parts.backward) += scale * time.us;
  parts.action_bubble = simulated.bubble_fraction;
  parts.simulated_bubble = simulate(schedule, times).bubble_fraction;
  parts.message = times.transfer_us = message_us;
  parts.message_bubble = simulate(schedule, times).bubble_fraction;
  parts.bubble = scale * std::min(stamped.waits, idle);
  parts.transfers = scale * (stamped.waits - std::min(stamped.waits, idle));
  parts.stalls = scale * stamped.stalls;
  parts.updates = scale * stamped.updates;
  return parts;
}

StageParts mean_of(const std::vector<StageParts>& steps) {
  StageParts mean;
  for (const StageParts& step : steps)
    for (double StageParts::*part :
         {&StageParts::forward, &StageParts::backward, &StageParts::bubble, &StageParts::transfers,
          &StageParts::simulated_bubble, &StageParts::action_bubble, &StageParts::message, &StageParts::message_bubble,
          &StageParts::stalls, &StageParts::updates})
      mean.*part += step.*part / static_cast<double>(steps.size());
  return mean;
}

}  // namespace amdahl
