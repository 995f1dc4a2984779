// The account on CPU virtual devices: what parts of a step do, that they leave nothing behind, and what they add up to.
#include "measure/study/step_parts.h"

#include <gtest/gtest.h>

#include <cmath>

#include "accounted_cell.h"
#include "measure/study/step_account.h"

namespace amdahl::test {
namespace {

TrainerOptions options_of(const std::string& strategy) {
  TrainerOptions options;
  options.model = odd_model(LossKind::mse);
  options.plan.strategy = strategy;
  options.plan.mesh.dp = strategy == "single" ? 1 : 2;
  options.plan.global_batch = 64;
  options.plan.bucket_bytes = 6000;
  return options;
}

class PartsOfAStep : public ::testing::TestWithParam<const char*> {};

// Parameters and traffic of each rank after one full step and then one with parts left out.
struct After {
  std::vector<float> before, after;
  size_t calls = 0;
};

std::vector<After> after(const TrainerOptions& options, StepPart part) {
  JobDevices job = cpu_job_devices(options.plan.num_devices());
  const Dataset data = make_study_dataset(256, options.model.input_width, options.model.output_width(), 3);
  std::vector<After> result(job.devices.size());
  run_rank_threads(
      options.plan.num_devices(),
      [&](int index) {
        const auto r = static_cast<size_t>(index);
        RankContext rank{index, options.plan.num_devices(), *job.devices[r], *job.ops[r], *job.communicators[r]};
        Trainer trainer(rank, options);
        BatchPool pool(trainer, rank.device, data, options.plan, 1, Deadline::after_seconds(60));
        trainer.step(pool.place(0).features, pool.place(0).targets);
        result[r].before = trainer.parameters();
        rank.communicator.barrier(Deadline::after_seconds(60));
        rank.communicator.reset_traffic();
        trainer.part_step(pool.place(0).features, pool.place(0).targets, part, LaunchMode::eager);
        result[r].after = trainer.parameters();
        result[r].calls = rank.communicator.traffic().num_calls;
        rank.communicator.barrier(Deadline::after_seconds(60));
      },
      [&](const Error& cause) {
        for (auto& communicator : job.communicators) communicator->abort(cause);
      });
  return result;
}

TEST_P(PartsOfAStep, ForwardAndBackwardUpdateNothingAndSendNothing) {
  for (const StepPart part : {StepPart::forward, StepPart::backward})
    for (const After& rank : after(options_of(GetParam()), part)) {
      EXPECT_EQ(rank.before, rank.after);
      EXPECT_EQ(rank.calls, 0U);
    }
}

TEST_P(PartsOfAStep, TheLocalPartUpdatesAndSendsNothing) {
  const std::vector<After> ranks = after(options_of(GetParam()), StepPart::local);
  EXPECT_NE(ranks.front().before, ranks.front().after);
  for (const After& rank : ranks) EXPECT_EQ(rank.calls, 0U);
}

TEST_P(PartsOfAStep, TheStagedPartSendsWhatAFullStepSendsButTheInput) {
  const TrainerOptions options = options_of(GetParam());
  const std::vector<After> staged = after(options, StepPart::staged), full = after(options, StepPart::full);
  for (size_t r = 0; r < staged.size(); ++r) {
    if (options.plan.strategy == "dp")
      EXPECT_LT(staged[r].calls, full[r].calls);
    else
      EXPECT_EQ(staged[r].after, full[r].after);
  }
}

TEST_P(PartsOfAStep, LeaveNoTraceInTheRunsThatCount) {
  const TrainerOptions options = options_of(GetParam());
  JobDevices job = cpu_job_devices(options.plan.num_devices());
  const auto runs = run_cell(job, options, 2, 5);

  // The same steps without an account, by hand.
  std::vector<double> losses;
  JobDevices plain = cpu_job_devices(options.plan.num_devices());
  const Dataset data = make_study_dataset(256, options.model.input_width, options.model.output_width(), 3);
  run_rank_threads(
      options.plan.num_devices(),
      [&](int index) {
        const auto r = static_cast<size_t>(index);
        RankContext rank{index, options.plan.num_devices(), *plain.devices[r], *plain.ops[r], *plain.communicators[r]};
        Trainer trainer(rank, options);
        BatchPool pool(trainer, rank.device, data, options.plan, 4, Deadline::after_seconds(60));
        const auto step = [&](size_t i) {
          const StepBatch batch = pool.take(i % pool.size());
          trainer.step(batch.features, batch.targets);
          pool.done();
        };
        step(0);
        const double first = trainer.stats().loss;
        for (size_t i = 0; i < 3; ++i) step(i);
        for (size_t i = 0; i < 5; ++i) step(i);
        const double last = trainer.stats().loss;
        if (index == 0) losses = {first, last};
      },
      [&](const Error& cause) {
        for (auto& communicator : plain.communicators) communicator->abort(cause);
      });
  for (const auto& run : runs) {
    EXPECT_EQ(run.front().loss_first, losses[0]);
    EXPECT_EQ(run.front().loss_last, losses[1]);
  }
}

INSTANTIATE_TEST_SUITE_P(Strategies, PartsOfAStep,
                         ::testing::Values("single", "ddp", "zero1", "zero2", "zero3", "dp", "replicated"),
                         [](const auto& strategy) { return std::string(strategy.param); });

// Shared machines stall at times: one of several runs must be within bounds that a wrong account would miss.
TEST(StepAccountOnCpu, IsOfTheMeasuredStepAndAddsUp) {
  constexpr int kRuns = 12;
  for (const char* strategy : {"single", "ddp", "dp"}) {
    TrainerOptions options = options_of(strategy);
    options.plan.global_batch = 2048;
    JobDevices job = cpu_job_devices(options.plan.num_devices());
    double best = INFINITY;
    int accounted = 0;
    for (const auto& run : run_cell(job, options, kRuns, 10)) {
      std::vector<PartTimes> times;
      double measured = 0;
      for (const RankRun& rank : run) {
        times.push_back(rank.parts);
        measured = std::max(measured, rank.step_us);
      }
      const AccountedStep account = account_step(times);
      if (account.step <= 0) continue;
      ++accounted;
      EXPECT_NEAR(account.compute + account.exposed_communication + account.waiting + account.launch_gaps +
                      account.input + account.optimizer,
                  account.step, 1e-9 * account.step);
      EXPECT_GT(account.forward, 0);
      best = std::min(best, std::abs(std::log(account.step / measured)));
    }
    EXPECT_LT(best, std::log(1.3)) << strategy;
    EXPECT_EQ(accounted, kRuns / 2);  // at most ten, at equal distances
  }
}

}  // namespace
}  // namespace amdahl::test
