// ZeRO stages 2 and 3: the bits of ddp, also in fp16, checkpoints to one device and back, and evaluation.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "plan/plan_rules.h"
#include "plan_job.h"
#include "sequence_models.h"

namespace amdahl::test {
namespace {

constexpr int64_t kZeroRows = 8;

TrainerOptions zero_options(const ModelSpec& model, const std::string& plan) {
  TrainerOptions options;
  options.model = model;
  options.plan = parse_plan(plan);
  options.plan.global_batch = kZeroRows;
  options.hyper.optimizer = "adamw";
  options.hyper.learning_rate = 1e-2f;
  options.hyper.weight_decay = 0.1f;
  options.seed = 7;
  return options;
}

std::vector<float> trained(const ModelSpec& model, const std::string& plan, MathMode math) {
  const TrainerOptions options = zero_options(model, plan);
  JobDevices job = cpu_job_devices(options.plan.num_devices(), math);
  return run_plan(job, options, random_data(model, kZeroRows, 11), 5).parameters;
}

/// Two ranks add the same two numbers under every strategy, and the optimizer works on each parameter by itself.
TEST(ZeroStages, GiveTheBitsOfDdpOnTwoRanks) {
  for (const SmallModel& small : small_sequence_models())
    for (const MathMode math : {MathMode::fp32, MathMode::fp16}) {
      if (math == MathMode::fp16 && (small.name == "lstm" || small.name == "gru")) continue;  // not in fp16
      const std::vector<float> expected = trained(small.spec, "dp2", math);
      for (const char* plan : {"dp2,zero1", "dp2,zero2", "dp2,zero3", "dp2,zero3,no-overlap"})
        EXPECT_EQ(trained(small.spec, plan, math), expected)
            << small.name << " under " << plan << " in " << to_string(math);
    }
}

/// Trains some steps from a state, and returns the state after them; on rank 0, with the loss of an evaluation.
struct ZeroRun {
  TrainerState state;
  double loss = 0;
};

ZeroRun continue_from(const TrainerOptions& options, const JobData& data, int steps, const TrainerState* from) {
  ZeroRun result;
  RunHooks hooks;
  hooks.at_end = [&](Trainer& trainer, int rank) {
    if (!takes_part_in_evaluation(trainer.parts())) return;
    const StepStats stats = evaluate(trainer.parts(), data.features.data(), data.targets.data(), kZeroRows);
    if (rank == 0) result.loss = stats.loss;
  };
  result.state = run_from(options, data, steps, from, hooks);
  return result;
}

TEST(ZeroStages, ACheckpointGoesToOneDeviceAndBack) {
  const ModelSpec model = small_gpt(true);
  const JobData data = random_data(model, kZeroRows, 5);
  const TrainerOptions one = zero_options(model, "dp1");
  for (const char* plan : {"dp3,zero2,m2", "dp3,zero3", "dp2.pp2,m2,zero3", "dp2.tp2,sp,zero3,recompute=block",
                           "dp2.pp2,m2,zero2", "dp2.pp2,m2,zb-h1,zero3"}) {
    const TrainerOptions several = zero_options(model, plan);
    const ZeroRun first = continue_from(several, data, 3, nullptr);
    const ZeroRun alone = continue_from(one, data, 0, &first.state);
    const ZeroRun back = continue_from(several, data, 0, &alone.state);
    EXPECT_EQ(alone.state.parameters, first.state.parameters) << plan;
    EXPECT_EQ(back.state.parameters, first.state.parameters) << plan;
    EXPECT_EQ(alone.state.optimizer, first.state.optimizer) << plan;
    EXPECT_EQ(back.state.optimizer, first.state.optimizer) << plan;
    EXPECT_EQ(back.state.step, 3U) << plan;
    EXPECT_NEAR(first.loss, alone.loss, 1e-5 * alone.loss) << plan;  // of evaluations
    EXPECT_EQ(back.loss, first.loss) << plan;
    // Training goes on as if it had not been interrupted.
    EXPECT_EQ(continue_from(several, data, 2, &first.state).state.parameters,
              continue_from(several, data, 5, nullptr).state.parameters)
        << plan;
  }
}

/// Rows that are not divided evenly: ranks that gather for each other evaluate in equal parts. Also with logits in
/// chunks, beside one device that has them whole.
TEST(ZeroStages, EvaluateRowsThatAreNotDividedEvenly) {
  const JobData data = random_data(small_gpt(false), kZeroRows, 5);
  const double alone = continue_from(zero_options(small_gpt(false), "dp1"), data, 0, nullptr).loss;
  for (const ModelSpec& model : {small_gpt(false), small_chunks(false)})
    for (const char* plan : {"dp3,zero3", "dp3.tp2,sp,zero3", "pp2", "tp2"}) {
      TrainerOptions several = zero_options(model, plan);
      several.plan.global_batch = 5;
      EXPECT_NEAR(continue_from(several, data, 0, nullptr).loss, alone, 1e-5) << model.name << " under " << plan;
    }
}

}  // namespace
}  // namespace amdahl::test
