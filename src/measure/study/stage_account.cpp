#include "measure/study/stage_account.h"

#include <algorithm>

#include "base/plan_rules.h"
#include "comm/device_mesh.h"
#include "measure/sampling/rank_results.h"
#include "parallel/pipeline/simulate.h"

namespace amdahl {
namespace {

/// Sums over a rank's micro-batches, by stage.
struct StageSums {
  std::vector<double> forward, backward_input, backward_weight, count;
};

template <class Archive>
void visit_fields(Archive& archive, StageSums& sums) {
  archive(sums.forward, sums.backward_input, sums.backward_weight, sums.count);
}

StageSums sums_of(const StampedStages& stamped, int stages) {
  const auto size = static_cast<size_t>(stages);
  StageSums sums{std::vector<double>(size), std::vector<double>(size), std::vector<double>(size),
                 std::vector<double>(size)};
  for (const StampedStages::StageTime& time : stamped.actions) {
    const auto stage = static_cast<size_t>(time.stage);
    if (time.kind == ActionKind::forward)
      sums.forward[stage] += time.us, sums.count[stage] += 1;
    else if (time.kind == ActionKind::backward_weight)
      sums.backward_weight[stage] += time.us;
    else
      sums.backward_input[stage] += time.us;
  }
  return sums;
}

/// Mean times of every stage over all ranks that hold it.
PipelineTimes mean_times(const std::vector<StageSums>& ranks, int stages) {
  PipelineTimes times;
  for (size_t s = 0; s < static_cast<size_t>(stages); ++s) {
    double count = 0;
    StageTimes mean;
    for (const StageSums& rank : ranks) {
      count += rank.count[s];
      mean.forward_us += rank.forward[s];
      mean.backward_input_us += rank.backward_input[s];
      mean.backward_weight_us += rank.backward_weight[s];
    }
    const double share = count > 0 ? 1 / count : 0;
    times.stages.push_back({share * mean.forward_us, share * mean.backward_input_us, share * mean.backward_weight_us});
  }
  return times;
}

}  // namespace

StageParts divide_stages(const RankContext& rank, const ParallelPlan& plan, const StampedStages& stamped,
                         double full_us, Deadline deadline) {
  const int stages = num_stages(plan);
  const std::vector<StageSums> all = exchange_results(rank.communicator, sums_of(stamped, stages), deadline);
  const PipelineSchedule schedule =
      make_schedule(schedule_of(plan), plan.mesh.pp, static_cast<int>(plan.accumulate), chunks_of(plan));
  const SimulatedPipeline simulated = simulate(schedule, mean_times(all, stages));
  const auto place = static_cast<size_t>(place_of(plan.mesh, rank.rank).pp);
  const double idle = simulated.makespan_us - simulated.busy_us[place];
  const double scale = stamped.step > 0 ? std::min(1.0, full_us / stamped.step) : 1.0;
  StageParts parts;
  for (const StampedStages::StageTime& time : stamped.actions)
    (time.kind == ActionKind::forward ? parts.forward : parts.backward) += scale * time.us;
  parts.simulated_bubble = simulated.bubble_fraction;
  parts.bubble = scale * std::min(stamped.waits, idle);
  parts.transfers = scale * (stamped.waits - std::min(stamped.waits, idle));
  parts.stalls = scale * stamped.stalls;
  parts.updates = scale * stamped.updates;
  return parts;
}

}  // namespace amdahl
