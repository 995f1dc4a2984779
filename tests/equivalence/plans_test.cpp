// Any plan of a mesh equals one device: loss, gradients and the weights after ten steps against float64, for small
// models of every kind of layer; and plans drawn at random.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "plan/plan_rules.h"
#include "plan/zero_units.h"
#include "plan_job.h"
#include "random_plans.h"
#include "reused_communicator.h"
#include "sequence_models.h"

namespace amdahl::test {
namespace {

constexpr int64_t kPlanRows = 24;  // for batch normalisation divisible by every number of micro-batches that is tested
constexpr int kPlanSteps = 10;
// float32 against float64: a few hundred roundings of 6e-8 each, and ten steps of them.
constexpr double kLossTolerance = 5e-6, kGradientTolerance = 1e-5, kWeightTolerance = 5e-5;

bool normalises_batches(const ModelSpec& model) {
  for (const LayerSpec& layer : model.layers)
    if (layer.kind == LayerKind::conv || layer.kind == LayerKind::residual_block) return true;
  return false;
}

/// In f32 another of two nearly equal pixels may be the largest than in float64: steps after that one differ.
int steps_of(const ModelSpec& model) {
  const auto pools = [](const LayerSpec& layer) { return layer.kind == LayerKind::max_pool; };
  return std::any_of(model.layers.begin(), model.layers.end(), pools) ? 1 : kPlanSteps;
}

TrainerOptions plan_options(const ModelSpec& model, const ParallelPlan& plan) {
  TrainerOptions options;
  options.model = model;
  options.plan = plan;
  options.plan.global_batch = kPlanRows;
  options.plan.bucket_bytes = 6000;  // several buckets
  options.hyper.learning_rate = 1e-2f;
  // Some gradients are zero in exact arithmetic (the bias of attention's keys): Adam would amplify their rounding.
  options.hyper.epsilon = 1e-4f;
  options.hyper.clip_norm = 0.5f;
  options.seed = 7;
  options.keep_gradients = true;
  return options;
}

/// The micro-batches of all ranks together, which batch normalisation depends on; 0: parts of unequal size.
int64_t parts_of(const ModelSpec& model, const ParallelPlan& plan) {
  if (!normalises_batches(model)) return 1;
  const int64_t parts = plan.mesh.dp * plan.accumulate;
  return kPlanRows % parts == 0 ? parts : 0;
}

const PlanReference& reference_of(const SmallModel& small, const JobData& data, int64_t parts) {
  static std::map<std::pair<std::string, int64_t>, PlanReference> references;
  const auto [found, added] = references.try_emplace({small.name, parts});
  if (added) {
    ParallelPlan plan;
    found->second = reference_run(plan_options(small.spec, plan), data, steps_of(small.spec), parts);
  }
  return found->second;
}

/// Everything that is to be equal under a plan; `text` names it in messages.
void expect_equal_to_one_device(const SmallModel& small, const ParallelPlan& plan, const std::string& text) {
  const int64_t parts = parts_of(small.spec, plan);
  if (parts == 0) return;
  const JobData data = random_data(small.spec, kPlanRows, 11);
  const PlanReference& reference = reference_of(small, data, parts);
  const TrainerOptions options = plan_options(small.spec, plan);
  const int steps = steps_of(small.spec);
  const PlanResult result = run_plan(options, data, steps);
  for (int step = 0; step < steps; ++step)
    EXPECT_NEAR(result.losses[static_cast<size_t>(step)], reference.losses[static_cast<size_t>(step)],
                kLossTolerance * std::max(1.0, reference.losses[static_cast<size_t>(step)]))
        << text << ", step " << step;
  EXPECT_LT(relative_difference(result.gradients, reference.gradients), kGradientTolerance) << text;
  EXPECT_LT(relative_difference(result.parameters, reference.parameters), kWeightTolerance) << text;
  for (int rank = 0; rank < plan.num_devices(); ++rank) {  // replicas hold the same bits
    MeshPlace first = place_of(plan.mesh, rank);
    first.dp = 0;
    EXPECT_EQ(result.replica[static_cast<size_t>(rank)], result.replica[static_cast<size_t>(rank_of(plan.mesh, first))])
        << text << ", rank " << rank;
  }
}

std::vector<ParallelPlan> plans_of(const ModelSpec& model, int devices) {
  std::vector<ParallelPlan> plans = enumerate_plans(
      model,
      {.num_devices = devices, .global_batch = kPlanRows, .micro_batches_per_rank = {1, 2}, .all_schedules = true});
  // Fields whose code does not depend on the schedule.
  PlanQuery query{.num_devices = devices, .global_batch = kPlanRows, .all_zero_stages = true, .with_sequence = true};
  query.options.accumulate = 2;
  for (const ParallelPlan& plan : enumerate_plans(model, query)) {
    const int stage = zero_stage(plan.strategy);
    if (plan.sequence_parallel ? stage == 0 || stage == 3 : stage >= 2) plans.push_back(plan);
  }
  return plans;
}

class Plans : public ::testing::TestWithParam<std::tuple<SmallModel, int>> {};

TEST_P(Plans, EqualOneDeviceInFloat64) {
  const auto& [small, devices] = GetParam();
  for (const ParallelPlan& plan : plans_of(small.spec, devices))
    expect_equal_to_one_device(small, plan, fmt::format("{} under {}", small.name, format_plan(plan)));
}

const SmallModel kBottleneck{"bottleneck", small_bottleneck_resnet()};
INSTANTIATE_TEST_SUITE_P(PooledImages, Plans,
                         ::testing::Combine(::testing::Values(kBottleneck), ::testing::Values(1, 2, 3, 4, 6, 8)),
                         [](const auto& which) { return fmt::format("on{}", std::get<1>(which.param)); });

TEST(PipelinesOfPooledImages, EqualMicroBatchesOnOneDeviceBitByBit) {
  const JobData data = random_data(kBottleneck.spec, kPlanRows, 11);
  const auto run = [&](const char* plan) {
    TrainerOptions options = plan_options(kBottleneck.spec, parse_plan(plan));
    options.hyper.clip_norm = 0;  // stages add up the norm in another order
    return run_plan(options, data, kPlanSteps);
  };
  const PlanResult one = run("dp1,m4");
  for (const char* plan : {"pp2,m4", "pp3,m4,gpipe", "pp2,m4,v2,interleaved", "pp2,m4,zb-h1"}) {
    const PlanResult several = run(plan);
    EXPECT_EQ(several.losses, one.losses) << plan;
    EXPECT_EQ(several.parameters, one.parameters) << plan;
  }
}

INSTANTIATE_TEST_SUITE_P(SmallModels, Plans,
                         ::testing::Combine(::testing::ValuesIn(small_models()), ::testing::Values(1, 2, 3, 4, 6, 8)),
                         [](const auto& which) {
                           return fmt::format("{}_on{}", std::get<0>(which.param).name, std::get<1>(which.param));
                         });

TEST(PlanCount, IsAtLeast200) {
  size_t count = 0;
  for (const SmallModel& small : small_models())
    for (const int devices : {1, 2, 3, 4, 6, 8})
      for (const ParallelPlan& plan : plans_of(small.spec, devices)) count += parts_of(small.spec, plan) > 0;
  RecordProperty("plans", static_cast<int>(count));
  EXPECT_GE(count, 200U);
}

TEST(PlansWithShares, EqualOneDeviceInFloat64) {
  for (const SmallModel& small : small_models())
    for (const char* text : {"dp2.pp2,m2,shares=3:1", "dp2.tp2,shares=2:1,zero1", "dp2.tp2.pp2,m2,shares=5:3"}) {
      ParallelPlan plan = parse_plan(text);
      plan.global_batch = kPlanRows;
      if (normalises_batches(small.spec) || !plan_feasible(plan, small.spec).ok) continue;
      expect_equal_to_one_device(small, plan, fmt::format("{} under {}", small.name, text));
    }
}

/// Schedules that divide backward: gradients of inputs and of weights are computed at different times.
TEST(ZeroWithDividedBackward, EqualsOneDeviceInFloat64) {
  int tested = 0;
  for (const SmallModel& small : small_models())
    for (const char* text : {"dp2.pp2,m2,zb-h1,zero3", "dp2.pp2,m3,zb-v,zero3", "dp3.pp2,m4,zb-h1,zero2",
                             "dp2.pp2,m4,zb-v,zero2,no-overlap", "dp2.tp2.pp2,m2,zb-h1,sp,zero3,recompute=block"}) {
      ParallelPlan plan = parse_plan(text);
      plan.global_batch = kPlanRows;
      if (!plan_feasible(plan, small.spec).ok) continue;
      tested += parts_of(small.spec, plan) > 0;
      expect_equal_to_one_device(small, plan, fmt::format("{} under {}", small.name, text));
    }
  EXPECT_GE(tested, 20);
}

/// As tests on GPUs do: their communicators take longer than the steps of a model.
TEST(ReusedCommunicators, GiveTheBitsOfNewOnes) {
  JobDevices job = with_reused_communicators(cpu_job_devices(4));
  int tested = 0;
  for (const char* text : {"dp2.tp2", "dp2.pp2,m2,zero1", "tp2.pp2,m2", "dp4,zero3", "dp2.tp2"})
    for (const SmallModel& small : small_models()) {
      ParallelPlan plan = parse_plan(text);
      plan.global_batch = kPlanRows;
      if (!plan_feasible(plan, small.spec).ok) continue;
      ++tested;
      const TrainerOptions options = plan_options(small.spec, plan);
      const JobData data = random_data(small.spec, kPlanRows, 11);
      const PlanResult reused = run_plan(job, options, data, 2), fresh = run_plan(options, data, 2);
      EXPECT_EQ(reused.losses, fresh.losses) << small.name << " under " << text;
      EXPECT_EQ(reused.parameters, fresh.parameters) << small.name << " under " << text;
    }
  EXPECT_GE(tested, 20);
}

TEST(RandomPlans, EqualOneDeviceInFloat64) {
  constexpr int kPlans = 24;
  std::mt19937_64 random(plan_seed());
  const auto pick = [&](auto& from) -> auto& { return from[random() % from.size()]; };
  std::vector<SmallModel> models = small_models();
  for (int tried = 0, found = 0; found < kPlans && tried < 100000; ++tried) {
    const SmallModel& small = pick(models);
    const ParallelPlan plan = draw_plan(random, 8, kPlanRows);
    if (!plan_feasible(plan, small.spec).ok || parts_of(small.spec, plan) == 0) continue;
    ++found;
    expect_equal_to_one_device(small, plan,
                               fmt::format("{} under {} (PLAN_SEED={})", small.name, format_plan(plan), plan_seed()));
  }
}

}  // namespace
}  // namespace amdahl::test
