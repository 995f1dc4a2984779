// Time of a pipeline of stages: by simulation of its schedule, and a bound without simulation for ranking many plans.
// Unit: us.
#include <algorithm>

#include "parallel/pipeline/simulate.h"
#include "planner/terms.h"

namespace amdahl {
namespace {

/// Time of a pipeline, and of its busiest rank at work in it.
struct Span {
  double makespan_us = 0, busy_us = 0;
};

/// A pipeline to simulate; its busiest rank is one of the whole schedule.
struct Pipeline {
  ScheduleKind kind;
  int chunks;
  const std::vector<StageCost>& stages;
  const std::vector<double>& slowdowns;
  size_t busiest;

  int64_t ranks() const { return static_cast<int64_t>(stages.size()) / chunks; }

  Span simulated(int64_t micro_batches, double transfer) const {
    PipelineTimes times;
    times.transfer_us = transfer;
    times.slowdowns = slowdowns;
    for (const StageCost& cost : stages)
      times.stages.push_back({cost.forward_us, cost.backward_us - cost.weight_us, cost.weight_us});
    const PipelineSchedule schedule =
        make_schedule(kind, static_cast<int>(ranks()), static_cast<int>(micro_batches), chunks);
    const SimulatedPipeline result = simulate(schedule, times);
    return {result.makespan_us, result.busy_us[busiest]};
  }

  Span span(int64_t micro_batches, double transfer) const {
    const int64_t steady = 4 * ranks();
    if (micro_batches <= steady + ranks()) return simulated(micro_batches, transfer);
    // A multiple of the ranks apart, because interleaved schedules need one.
    const int64_t rest = (micro_batches - steady) % ranks();
    const Span first = simulated(steady + rest, transfer), second = simulated(steady + rest + ranks(), transfer);
    const int64_t times = (micro_batches - steady - rest) / ranks();
    const auto further = static_cast<double>(times);
    return {first.makespan_us + (second.makespan_us - first.makespan_us) * further,
            first.busy_us + (second.busy_us - first.busy_us) * further};
  }
};

size_t busiest_of(const std::vector<StageCost>& ranks) {
  const auto less = [](const StageCost& a, const StageCost& b) { return a.total_us() < b.total_us(); };
  return static_cast<size_t>(std::max_element(ranks.begin(), ranks.end(), less) - ranks.begin());
}

std::vector<StageCost> ranks_of(ScheduleKind kind, int chunks, const std::vector<StageCost>& stages) {
  const int count = static_cast<int>(stages.size()) / chunks;
  std::vector<StageCost> ranks(static_cast<size_t>(count));
  for (size_t stage = 0; stage < stages.size(); ++stage) {
    StageCost& rank = ranks[static_cast<size_t>(rank_of_stage(kind, count, static_cast<int>(stage)))];
    rank.forward_us += stages[stage].forward_us, rank.backward_us += stages[stage].backward_us;
    rank.weight_us += stages[stage].weight_us;
  }
  return ranks;
}

// The part of the bubble of 1F1B that a schedule leaves; zb-h1's is (p - 1) (F + B - W), of which zb-v's is no more.
double bubble_share(ScheduleKind kind, int chunks, const StageCost& rank) {
  constexpr double kLeast = 1.0 / 3;
  switch (kind) {
    case ScheduleKind::interleaved:
      return 1.0 / chunks;
    case ScheduleKind::zb_h1:
    case ScheduleKind::zb_v:
      return rank.total_us() > 0 ? std::max(kLeast, 1 - 2 * rank.weight_us / rank.total_us()) : 1;
    default:
      return 1;
  }
}

}  // namespace

PipelineCost pipeline_bound(ScheduleKind kind, int chunks, const std::vector<StageCost>& ranks, int64_t micro_batches,
                            double transfer) {
  PipelineCost cost;
  const size_t busiest = busiest_of(ranks);
  double sum = 0;
  for (const StageCost& rank : ranks) sum += rank.total_us();
  const double slowest = ranks[busiest].total_us();
  cost.busiest = static_cast<int>(busiest);
  cost.bubble_us = (sum - slowest) * bubble_share(kind, chunks, ranks[busiest]);
  cost.transfer_us = 2 * static_cast<double>(ranks.size() - 1) * transfer;
  cost.makespan_us = slowest * static_cast<double>(micro_batches) + cost.bubble_us + cost.transfer_us;
  return cost;
}

PipelineCost pipeline_simulated(ScheduleKind kind, int chunks, const std::vector<StageCost>& stages,
                                int64_t micro_batches, double transfer, const std::vector<double>& slowdowns) {
  const std::vector<StageCost> ranks = ranks_of(kind, chunks, stages);
  if (ranks.size() < 2) return pipeline_bound(kind, chunks, ranks, micro_batches, 0);
  const Pipeline pipeline{kind, chunks, stages, slowdowns, busiest_of(ranks)};
  PipelineCost cost;
  cost.busiest = static_cast<int>(pipeline.busiest);
  cost.makespan_us = pipeline.span(micro_batches, transfer).makespan_us;
  const Span without = pipeline.span(micro_batches, 0);
  // Ranks that share cores may end sooner where transfers keep them from working at once.
  cost.transfer_us = std::max(0.0, cost.makespan_us - without.makespan_us);
  cost.bubble_us = std::max(0.0, cost.makespan_us - cost.transfer_us - without.busy_us);
  const double alone = ranks[pipeline.busiest].total_us() * static_cast<double>(micro_batches);
  if (alone > 0) cost.slowdown = without.busy_us / alone;
  return cost;
}

}  // namespace amdahl
