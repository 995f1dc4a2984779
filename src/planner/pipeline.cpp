// Time of a pipeline of stages: by simulation of its schedule, and a bound without simulation for ranking many plans.
// Unit: us.
#include <algorithm>

#include "parallel/pipeline/simulate.h"
#include "planner/terms.h"

namespace amdahl {
namespace {

double simulated_us(ScheduleKind kind, int chunks, const std::vector<StageCost>& stages, int64_t micro_batches,
                    double transfer) {
  const int ranks = static_cast<int>(stages.size());
  PipelineTimes times;
  times.transfer_us = transfer;
  const PipelineSchedule schedule = make_schedule(kind, ranks, static_cast<int>(micro_batches), chunks);
  for (int stage = 0; stage < schedule.num_stages; ++stage) {
    const StageCost& cost = stages[static_cast<size_t>(schedule.rank_of_stage[static_cast<size_t>(stage)])];
    times.stages.push_back({cost.forward_us / chunks, cost.backward_us / chunks / 2, cost.backward_us / chunks / 2});
  }
  return simulate(schedule, times).makespan_us;
}

double makespan_us(ScheduleKind kind, int chunks, const std::vector<StageCost>& stages, int64_t micro_batches,
                   double transfer) {
  const auto ranks = static_cast<int64_t>(stages.size());
  const int64_t steady = 4 * ranks;
  if (micro_batches <= steady + ranks) return simulated_us(kind, chunks, stages, micro_batches, transfer);
  // A multiple of the ranks apart, because interleaved schedules need one.
  const int64_t rest = (micro_batches - steady) % ranks;
  const double first = simulated_us(kind, chunks, stages, steady + rest, transfer);
  const double second = simulated_us(kind, chunks, stages, steady + rest + ranks, transfer);
  const int64_t further = (micro_batches - steady - rest) / ranks;
  return first + (second - first) * static_cast<double>(further);
}

PipelineCost divide(const std::vector<StageCost>& stages, int64_t micro_batches, double makespan, double without) {
  PipelineCost cost;
  cost.makespan_us = makespan;
  cost.transfer_us = makespan - without;
  for (size_t stage = 0; stage < stages.size(); ++stage)
    if (stages[stage].total_us() > stages[static_cast<size_t>(cost.busiest)].total_us())
      cost.busiest = static_cast<int>(stage);
  const double busy = stages[static_cast<size_t>(cost.busiest)].total_us() * static_cast<double>(micro_batches);
  cost.bubble_us = std::max(0.0, without - busy);
  return cost;
}

}  // namespace

PipelineCost pipeline_bound(const std::vector<StageCost>& stages, int64_t micro_batches, double transfer) {
  double sum = 0, slowest = 0;
  for (const StageCost& stage : stages) sum += stage.total_us(), slowest = std::max(slowest, stage.total_us());
  const double without = sum + static_cast<double>(micro_batches - 1) * slowest;
  return divide(stages, micro_batches, without + 2 * static_cast<double>(stages.size() - 1) * transfer, without);
}

PipelineCost pipeline_simulated(ScheduleKind kind, int chunks, const std::vector<StageCost>& stages,
                                int64_t micro_batches, double transfer) {
  if (stages.size() < 2) return pipeline_bound(stages, micro_batches, 0);
  return divide(stages, micro_batches, makespan_us(kind, chunks, stages, micro_batches, transfer),
                makespan_us(kind, chunks, stages, micro_batches, 0));
}

}  // namespace amdahl
