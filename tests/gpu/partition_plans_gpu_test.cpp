// Plans of a mesh over GPUs, or partitions of one, whose communicators are in symmetric memory: they equal one device
// in float64, and steps replayed as a graph give the bits of eager ones, over every pipeline schedule.
#include <fmt/format.h>

#include "plan/plan_rules.h"
#include "plans_gpu.h"
#include "sequence_models.h"

namespace amdahl::test {
namespace {

class PartitionPlans : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const Availability availability = cuda_availability();
    if (!availability.ok) GTEST_SKIP() << availability.reason;
    ASSERT_TRUE(kLoadsAtStart);
    plan = parse_plan(GetParam());
    plan.global_batch = kPlanRows;
    std::string why;
    if (gpus_or_partitions(plan.num_devices(), why).empty()) GTEST_SKIP() << why;
  }
  JobDevices devices(bool deterministic) const {
    std::string why;
    return plan_job_on_gpus(plan.num_devices(), true, why, {MathMode::fp32, deterministic});
  }
  ParallelPlan plan;
};

TEST_P(PartitionPlans, EqualOneDeviceInFloat64) {
  JobDevices job = devices(false);  // communicators and devices serve all models, as those of a study serve its cells
  int tested = 0;
  for (const SmallModel& small : small_sequence_models()) {
    if (small.name == "resnet" || !plan_feasible(plan, small.spec).ok) continue;
    ++tested;
    expect_one_device(job, plan_options_on_gpus(small.spec, plan), fmt::format("{} under {}", small.name, GetParam()));
  }
  EXPECT_GT(tested, 0);
}

TEST_P(PartitionPlans, GraphsGiveTheBitsOfEagerSteps) {
  std::vector<SmallModel> models{{"deep", deep_model(LossKind::mse)}};
  for (const SmallModel& small : small_sequence_models())
    if (small.name == "gpt_tied" || small.name == "lstm") models.push_back(small);
  JobDevices first = devices(true), second = devices(true);
  int tested = 0;
  for (const SmallModel& small : models) {
    if (!plan_feasible(plan, small.spec).ok) continue;
    ++tested;
    const JobData data = random_data(small.spec, kPlanRows, 12);
    const PlanResult eager =
        run_plan(first, plan_options_on_gpus(small.spec, plan, LaunchMode::eager), data, kPlanSteps);
    const PlanResult graph =
        run_plan(second, plan_options_on_gpus(small.spec, plan, LaunchMode::graph), data, kPlanSteps);
    const std::string text = fmt::format("{} under {}", small.name, GetParam());
    EXPECT_EQ(graph.losses, eager.losses) << text;
    EXPECT_EQ(graph.gradients, eager.gradients) << text;
    EXPECT_EQ(graph.parameters, eager.parameters) << text;
  }
  EXPECT_GT(tested, 0);
}

INSTANTIATE_TEST_SUITE_P(Mesh, PartitionPlans,
                         ::testing::Values("tp2", "tp2,sp", "pp2,gpipe,m4", "pp2,1f1b,m4",
                                           "pp2,interleaved,m4,split=flops", "pp2,zb-h1,m4", "pp2,zb-v,m4,split=flops",
                                           "dp2,zero1", "dp2,zero3"),
                         [](const auto& which) { return test_name(which.param); });

}  // namespace
}  // namespace amdahl::test
