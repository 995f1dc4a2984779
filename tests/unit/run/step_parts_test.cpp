// The account on CPU virtual devices: what parts of a step do, that they leave nothing behind, and what they add up to.
#include "measure/study/step_parts.h"

#include <gtest/gtest.h>

#include <cmath>

#include "accounted_cell.h"
#include "measure/study/step_account.h"
#include "plan/plan_rules.h"
#include "plan_job.h"

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

std::vector<After> after(const TrainerOptions& options, const StepWork& work) {
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
        result[r].before = read_parameters(trainer.parts());
        rank.communicator.barrier(Deadline::after_seconds(60));
        rank.communicator.reset_traffic();
        trainer.launch(pool.place(0).features, pool.place(0).targets, work, LaunchMode::eager);
        result[r].after = read_parameters(trainer.parts());
        result[r].calls = rank.communicator.traffic().num_calls;
        rank.communicator.barrier(Deadline::after_seconds(60));
      },
      [&](const Error& cause) {
        for (auto& communicator : job.communicators) communicator->abort(cause);
      });
  return result;
}

TEST_P(PartsOfAStep, ForwardAndBackwardUpdateNothingAndSendNothing) {
  for (const StepWork& work : {kForwardStep, kBackwardStep})
    for (const After& rank : after(options_of(GetParam()), work)) {
      EXPECT_EQ(rank.before, rank.after);
      EXPECT_EQ(rank.calls, 0U);
    }
}

TEST_P(PartsOfAStep, TheLocalPartUpdatesAndSendsNothing) {
  const std::vector<After> ranks = after(options_of(GetParam()), kLocalStep);
  EXPECT_NE(ranks.front().before, ranks.front().after);
  for (const After& rank : ranks) EXPECT_EQ(rank.calls, 0U);
}

TEST_P(PartsOfAStep, TheStagedPartSendsWhatAFullStepSendsButTheInput) {
  const TrainerOptions options = options_of(GetParam());
  const std::vector<After> staged = after(options, kStagedStep), full = after(options, {});
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

/// By rank: the payload bytes of one full step and of its messages alone, and the parameters after both.
struct MessagesOfAStep {
  size_t full_bytes = 0, messages_bytes = 0;
  int64_t in_sequence = 0;
  std::vector<float> before, after;
  double loss = 0, loss_after = 0;  // of the second step, without and with messages alone before it
};

std::vector<MessagesOfAStep> messages_of(const TrainerOptions& options) {
  const JobData data = random_data(options.model, options.plan.global_batch, 3);
  std::vector<MessagesOfAStep> result(static_cast<size_t>(options.plan.num_devices()));
  on_trainers(options, data, [&](Trainer& trainer, const float* features, const float* targets, int rank) {
    MessagesOfAStep& mine = result[static_cast<size_t>(rank)];
    trainer.step(features, targets);
    trainer.synchronize();
    mine.full_bytes = trainer.parts().divided.take_traffic();
    trainer.step(features, targets);
    mine.loss = trainer.stats().loss;
    trainer.reset();
    trainer.step(features, targets);
    mine.before = read_parameters(trainer.parts());
    trainer.parts().divided.take_traffic();
    trainer.launch(features, targets, kMessagesStep, LaunchMode::eager);
    mine.after = read_parameters(trainer.parts());
    mine.messages_bytes = trainer.parts().divided.take_traffic();
    mine.in_sequence = messages_in_sequence(trainer.parts());
    trainer.step(features, targets);
    mine.loss_after = trainer.stats().loss;
  });
  return result;
}

TEST(MessagesPart, SendsWhatAStepSendsBetweenStagesAndLeavesNoTrace) {
  struct Wanted {
    const char* plan;
    int64_t in_sequence;  // two directions x boundaries between ranks x micro-batches
  };
  for (const auto& [text, in_sequence] :
       {Wanted{"pp2,m4", 2 * 1 * 4}, Wanted{"pp4,gpipe,m2", 2 * 3 * 2}, Wanted{"pp2,interleaved,m4", 2 * 3 * 4},
        Wanted{"pp2,zb-v,m4", 2 * 2 * 4}, Wanted{"dp2.pp2,zb-h1,m2", 2 * 1 * 2}}) {
    TrainerOptions options = options_of("ddp");
    options.plan = parse_plan(text);
    options.plan.global_batch = 64;
    for (const MessagesOfAStep& rank : messages_of(options)) {
      EXPECT_EQ(rank.in_sequence, in_sequence) << text;
      EXPECT_GT(rank.messages_bytes, 0U) << text;
      if (options.plan.mesh.dp == 1) {
        EXPECT_EQ(rank.messages_bytes, rank.full_bytes) << text;
      }
      EXPECT_EQ(rank.before, rank.after) << text;
      EXPECT_EQ(rank.loss, rank.loss_after) << text;
    }
  }
}

TEST(MessagesPart, MakesTheSimulatedBubbleLarger) {
  TrainerOptions options = options_of("ddp");
  options.plan = parse_plan("pp2,m4");
  options.plan.global_batch = 64;
  JobDevices job = cpu_job_devices(2);
  int accounted = 0;
  for (const auto& run : run_cell(job, options, 2, 5))
    for (const RankRun& rank : run) {
      if (!rank.parts.has_stages) continue;
      ++accounted;
      const StageParts& stages = rank.parts.stages;
      EXPECT_GT(stages.message, 0);
      EXPECT_LT(stages.message, rank.parts.full * 10);
      EXPECT_EQ(stages.message, run.front().parts.stages.message);
      EXPECT_GT(stages.message_bubble, stages.simulated_bubble);
      EXPECT_LT(stages.message_bubble, 1);
    }
  EXPECT_EQ(accounted, 4);
}

// Shared machines stall at times: one of several runs must be within bounds that a wrong account would miss. Where they
// are busy throughout, the cell is measured again.
TEST(StepAccountOnCpu, IsOfTheMeasuredStepAndAddsUp) {
  constexpr int kRuns = 12, kCells = 4;
  for (const char* strategy : {"single", "ddp", "dp"}) {
    TrainerOptions options = options_of(strategy);
    options.plan.global_batch = 2048;
    JobDevices job = cpu_job_devices(options.plan.num_devices());
    double best = INFINITY;
    for (int cell = 0; cell < kCells && best >= std::log(1.3); ++cell) {
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
      EXPECT_EQ(accounted, kRuns / 2);  // at most ten, at equal distances
    }
    EXPECT_LT(best, std::log(1.3)) << strategy;
  }
}

}  // namespace
}  // namespace amdahl::test
