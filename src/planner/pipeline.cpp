// Time of a pipeline of stages: by simulation of its schedule, and a bound without simulation for ranking many plans.
// Unit: us.
#include <algorithm>

#include "parallel/pipeline/simulate.h"
#include "planner/terms.h"

namespace amdahl {
namespace {

double simulated_us(ScheduleKind kind, int chunks, const std::vector<StageCost>& stages, int64_t micro_batches,
                    double transfer) {
  PipelineTimes times;
  times.transfer_us = transfer;
  const int ranks = static_cast<int>(stages.size()) / chunks;
  for (const StageCost& cost : stages)
    times.stages.push_back({cost.forward_us, cost.backward_us / 2, cost.backward_us / 2});
  return simulate(make_schedule(kind, ranks, static_cast<int>(micro_batches), chunks), times).makespan_us;
}

double makespan_us(ScheduleKind kind, int chunks, const std::vector<StageCost>& stages, int64_t micro_batches,
                   double transfer) {
  const auto ranks = static_cast<int64_t>(stages.size()) / chunks;
  const int64_t steady = 4 * ranks;
  if (micro_batches <= steady + ranks) return simulated_us(kind, chunks, stages, micro_batches, transfer);
  // A multiple of the ranks apart, because interleaved schedules need one.
  const int64_t rest = (micro_batches - steady) % ranks;
  const double first = simulated_us(kind, chunks, stages, steady + rest, transfer);
  const double second = simulated_us(kind, chunks, stages, steady + rest + ranks, transfer);
  const int64_t further = (micro_batches - steady - rest) / ranks;
  return first + (second - first) * static_cast<double>(further);
}

PipelineCost divide(const std::vector<StageCost>& ranks, int64_t micro_batches, double makespan, double without) {
  PipelineCost cost;
  cost.makespan_us = makespan;
  cost.transfer_us = makespan - without;
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    if (ranks[rank].total_us() > ranks[static_cast<size_t>(cost.busiest)].total_us())
      cost.busiest = static_cast<int>(rank);
  const double busy = ranks[static_cast<size_t>(cost.busiest)].total_us() * static_cast<double>(micro_batches);
  cost.bubble_us = std::max(0.0, without - busy);
  return cost;
}

std::vector<StageCost> ranks_of(ScheduleKind kind, int chunks, const std::vector<StageCost>& stages) {
  const int count = static_cast<int>(stages.size()) / chunks;
  std::vector<StageCost> ranks(static_cast<size_t>(count));
  for (size_t stage = 0; stage < stages.size(); ++stage) {
    StageCost& rank = ranks[static_cast<size_t>(rank_of_stage(kind, count, static_cast<int>(stage)))];
    rank.forward_us += stages[stage].forward_us, rank.backward_us += stages[stage].backward_us;
  }
  return ranks;
}

}  // namespace

PipelineCost pipeline_bound(const std::vector<StageCost>& ranks, int64_t micro_batches, double transfer) {
  double sum = 0, slowest = 0;
  for (const StageCost& rank : ranks) sum += rank.total_us(), slowest = std::max(slowest, rank.total_us());
  const double without = sum + static_cast<double>(micro_batches - 1) * slowest;
  return divide(ranks, micro_batches, without + 2 * static_cast<double>(ranks.size() - 1) * transfer, without);
}

PipelineCost pipeline_simulated(ScheduleKind kind, int chunks, const std::vector<StageCost>& stages,
                                int64_t micro_batches, double transfer) {
  const std::vector<StageCost> ranks = ranks_of(kind, chunks, stages);
  if (ranks.size() < 2) return pipeline_bound(ranks, micro_batches, 0);
  return divide(ranks, micro_batches, makespan_us(kind, chunks, stages, micro_batches, transfer),
                makespan_us(kind, chunks, stages, micro_batches, 0));
}

}  // namespace amdahl
