#include "measure/training/measured_shares.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "measure/training/batch_pool.h"
#include "plan/plan_rules.h"
#include "stats/summary.h"

namespace amdahl {
namespace {

constexpr int kRounds = 2, kBlocks = 5, kWarmSteps = 2;
constexpr double kBlockUs = 20'000;

/// Median time of a step without communication on this rank, us.
double local_step_us(const RankContext& rank, Trainer& trainer, const StepBatch& batch, Deadline deadline) {
  const auto start = rank.device.make_event(), end = rank.device.make_event();
  Stream& stream = trainer.compute_stream();
  const auto timed = [&](int steps) {
    rank.communicator.barrier(deadline);
    stream.stamp(*start);
    for (int i = 0; i < steps; ++i)
      trainer.launch(batch.features, batch.targets, {.input = false, .communication = false}, LaunchMode::eager);
    stream.stamp(*end);
    trainer.synchronize();
    return rank.device.elapsed_us(*start, *end) / steps;
  };
  timed(kWarmSteps);
  const double once = std::max(1.0, timed(kWarmSteps));
  const int steps = static_cast<int>(std::clamp(std::ceil(kBlockUs / once), 1.0, 200.0));
  std::vector<double> blocks;
  for (int block = 0; block < kBlocks; ++block) blocks.push_back(timed(steps));
  return median_of(blocks);
}

/// Shares by these speeds; the slowest devices get more where they would have fewer rows than micro-batches.
int64_t feasible_shares(ParallelPlan plan, std::vector<double> speeds) {
  constexpr int kTries = 200;
  for (int i = 0; i < kTries; ++i) {
    plan.shares = shares_by_speed(speeds);
    if (fewest_data_rows(plan) >= plan.accumulate) return plan.shares;
    double& slowest = *std::min_element(speeds.begin(), speeds.end());
    slowest *= 1.1;
  }
  return kEqualShares;
}

}  // namespace

MeasuredShares measure_shares(const RankContext& rank, const TrainerOptions& options, const Dataset& data) {
  const Deadline deadline = Deadline::after_seconds(options.timeout_seconds);
  TrainerOptions tried = options;
  static_cast<PlanOptions&>(tried.plan) = plain_sync(options.plan);
  tried.plan.strategy = "ddp";
  tried.plan.input = static_cast<int64_t>(InputMode::resident);
  tried.launch = LaunchMode::eager;
  MeasuredShares measured;
  for (int round = 0; round < kRounds; ++round) {
    tried.plan.shares = measured.shares;
    Trainer trainer(rank, tried);
    const BatchPool pool(trainer, rank.device, data, tried.plan, 1, deadline);
    const double step_us = local_step_us(rank, trainer, pool.place(0), deadline);
    const double mine = static_cast<double>(trainer.rows_to_provide().rows()) / step_us * 1e6;
    measured.speeds.clear();
    const std::string bytes(reinterpret_cast<const char*>(&mine), sizeof mine);
    for (const std::string& part : rank.communicator.exchange(bytes, deadline)) {
      double speed = 0;
      std::memcpy(&speed, part.data(), std::min(part.size(), sizeof speed));
      measured.speeds.push_back(speed);
    }
    measured.shares = feasible_shares(tried.plan, measured.speeds);
  }
  return measured;
}

}  // namespace amdahl
