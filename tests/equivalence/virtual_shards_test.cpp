// Plans with virtual_shards: the same bits on any number of devices, also where the number changes during training.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "plan/plan_rules.h"
#include "plan_job.h"
#include "random_plans.h"
#include "sequence_models.h"

namespace amdahl::test {
namespace {

constexpr int64_t kShardRows = 12;

TrainerOptions shard_options(const ModelSpec& model, int devices, int64_t shards, int64_t rows = kShardRows) {
  TrainerOptions options;
  options.model = model;
  options.plan = parse_plan(fmt::format("dp{},shards{}", devices, shards));
  options.plan.global_batch = rows;
  options.plan.bucket_bytes = 3000;  // several buckets
  options.hyper.optimizer = "adamw";
  options.hyper.epsilon = 1e-4f;  // some gradients are zero in exact arithmetic
  options.hyper.clip_norm = 0.5f;
  options.hyper.learning_rate = 1e-3f;
  options.seed = 7;
  options.keep_gradients = true;
  return options;
}

void expect_same_state(const TrainerState& a, const TrainerState& b, const std::string& what) {
  EXPECT_EQ(a.parameters, b.parameters) << what;
  EXPECT_EQ(a.optimizer, b.optimizer) << what;
  ASSERT_EQ(a.buffers.size(), b.buffers.size()) << what;
  for (size_t i = 0; i < a.buffers.size(); ++i) EXPECT_EQ(a.buffers[i].values, b.buffers[i].values) << what;
}

class VirtualShards : public ::testing::TestWithParam<SmallModel> {};

TEST_P(VirtualShards, GiveTheSameBitsOnAnyNumberOfDevices) {
  const ModelSpec& model = GetParam().spec;
  for (const int64_t shards : {4, 6, 12}) {  // 4 on 3 devices, 6 on 4 and 5: unequal numbers of shards
    const JobData data = random_data(model, kShardRows, 11);
    const PlanResult one = run_plan(shard_options(model, 1, shards), data, 3);
    const TrainerState state = run_from(shard_options(model, 1, shards), data, 3, nullptr);
    for (int devices = 2; devices <= std::min<int64_t>(shards, 5); ++devices) {
      const TrainerOptions options = shard_options(model, devices, shards);
      const std::string what = fmt::format("{} on {} devices, {} shards", GetParam().name, devices, shards);
      const PlanResult several = run_plan(options, data, 3);
      EXPECT_EQ(several.losses, one.losses) << what;
      EXPECT_EQ(several.correct, one.correct) << what;
      EXPECT_EQ(several.gradients, one.gradients) << what;
      for (const std::vector<float>& replica : several.replica) EXPECT_EQ(replica, one.replica[0]) << what;
      expect_same_state(run_from(options, data, 3, nullptr), state, what);
    }
  }
}

TEST_P(VirtualShards, ComputeTheGradientOfTheBatch) {
  const ModelSpec& model = GetParam().spec;
  const JobData data = random_data(model, kShardRows, 11);
  const TrainerOptions options = shard_options(model, 3, 4);
  const PlanReference reference = reference_run(options, data, 3, 4);
  const PlanResult result = run_plan(options, data, 3);
  EXPECT_LT(relative_difference(result.gradients, reference.gradients), 1e-4);
  EXPECT_LT(relative_difference(result.parameters, reference.parameters), 1e-4);
  for (size_t i = 0; i < reference.losses.size(); ++i)
    EXPECT_NEAR(result.losses[i], reference.losses[i], 1e-4 * std::max(1.0, reference.losses[i]));
}

INSTANTIATE_TEST_SUITE_P(SmallModels, VirtualShards, ::testing::ValuesIn(small_models()),
                         [](const auto& which) { return which.param.name; });

/// Devices come and go at random between steps; the batch's rows do not divide evenly.
TEST(ElasticTraining, EndsWithTheBitsOfOneDevice) {
  std::mt19937_64 random(plan_seed());
  const std::vector<SmallModel> models = small_models();
  for (int trial = 0; trial < 50; ++trial) {
    const ModelSpec& model = models[random() % models.size()].spec;
    const int64_t shards = static_cast<int64_t>(2 + random() % 11);
    const int64_t rows = shards + static_cast<int64_t>(random() % 8);
    const JobData data = random_data(model, rows, random());
    std::string schedule;
    TrainerState state;
    int steps = 0;
    for (int part = 0; part < 3; ++part) {
      const int devices = static_cast<int>(1 + random() % static_cast<uint64_t>(std::min<int64_t>(shards, 4)));
      const int of_part = static_cast<int>(1 + random() % 2);
      state = run_from(shard_options(model, devices, shards, rows), data, of_part, part > 0 ? &state : nullptr);
      schedule += fmt::format(" {} x {}", of_part, devices);
      steps += of_part;
    }
    expect_same_state(state, run_from(shard_options(model, 1, shards, rows), data, steps, nullptr),
                      fmt::format("{}, {} shards of {} rows, devices{}", model.name, shards, rows, schedule));
  }
}

TEST(VirtualShardsTraffic, IsWhatIsDeclared) {
  for (const SmallModel& small : small_models())
    for (const int devices : {1, 2, 3, 4}) {
      const TrainerOptions options = shard_options(small.spec, devices, 6);
      const JobData data = random_data(small.spec, kShardRows, 11);
      on_trainers(options, data, [&](Trainer& trainer, const float* features, const float* targets, int rank) {
        trainer.parts().divided.take_traffic();
        trainer.step(features, targets);
        trainer.synchronize();
        EXPECT_EQ(static_cast<int64_t>(trainer.parts().divided.take_traffic()),
                  find_strategy(options.plan.strategy).traffic_bytes(options.plan, small.spec, rank))
            << small.name << devices;
      });
    }
}

TEST(VirtualShardsRules, RefuseWhatTheyDoNotGoWith) {
  const ModelSpec model = small_models().front().spec;
  const auto reason = [&](const char* text, int64_t batch) {
    ParallelPlan plan = parse_plan(text);
    plan.global_batch = batch;
    return plan_feasible(plan, model).reason;
  };
  EXPECT_EQ(reason("dp2,shards12", 12), "");
  EXPECT_EQ(reason("dp1,shards12", 0), "");
  for (const char* text : {"dp2,shards12,zero1", "dp2,shards12,m2", "dp2,shards12,compress=int8", "dp2,shards12,local2",
                           "dp2,shards12,shares=3:1", "dp2.tp2,shards12", "dp3,shards2", "dp2,shards12,dp"})
    EXPECT_NE(reason(text, 48).find("shards"), std::string::npos) << text << ": " << reason(text, 48);
  EXPECT_EQ(reason("dp2,shards12", 11), "batch 11 is smaller than 12 virtual shards, see `virtual-shards`");
}

}  // namespace
}  // namespace amdahl::test
