// Plans of a mesh over GPUs, or partitions of one, whose communicators are in symmetric memory: they equal one device
// in float64, and steps replayed as a graph give the bits of eager ones, over every pipeline schedule.
#include <fmt/format.h>

#include "base/plan_rules.h"
#include "plan_job.h"
#include "sequence_models.h"
#include "several_gpus.h"
#include "symmetric/symmetric_collectives.h"

namespace amdahl::test {
namespace {

constexpr int64_t kRows = 24;
constexpr int kSteps = 5;

/// Nine dense layers of odd widths with dropout: zb-h1 and zb-v divide their backward passes.
ModelSpec deep_mlp() {
  ModelSpec model;
  model.name = "deep";
  model.input_width = 13;
  for (const int64_t units : {31, 24, 17, 40, 19, 33, 21, 16})
    model.layers.push_back({units, units != 40, Activation::relu, units % 2 == 0 ? 0.25 : 0.0});
  model.layers.push_back({5, true, Activation::none, 0.0});
  return model;
}

class PartitionPlans : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const Availability availability = cuda_availability();
    if (!availability.ok) GTEST_SKIP() << availability.reason;
    ASSERT_TRUE(kLoadsAtStart);
    plan = parse_plan(GetParam());
    plan.global_batch = kRows;
    std::string why;
    if (gpus_or_partitions(plan.num_devices(), why).empty()) GTEST_SKIP() << why;
  }
  JobDevices devices(bool deterministic) const {
    JobDevices job;
    std::string why;
    job.devices = gpus_or_partitions(plan.num_devices(), why);
    std::vector<Device*> all;
    for (auto& device : job.devices) {
      device->bind_thread();
      job.ops.push_back(make_cuda_ops(*device, {MathMode::fp32, deterministic}));
      all.push_back(device.get());
    }
    const auto size = static_cast<int>(all.size());
    job.communicators = make_symmetric_communicators(all, make_inproc_communicators(size, 60), 60, {});
    return job;
  }
  TrainerOptions options(const ModelSpec& model, LaunchMode launch) const {
    TrainerOptions options;
    options.model = model;
    options.plan = plan;
    options.launch = launch;
    options.hyper.learning_rate = 1e-2f;
    options.hyper.epsilon = 1e-4f;  // some gradients are zero in exact arithmetic
    options.hyper.clip_norm = 0.5f;
    options.seed = 7;
    options.keep_gradients = true;
    return options;
  }
  ParallelPlan plan;
};

TEST_P(PartitionPlans, EqualOneDeviceInFloat64) {
  int tested = 0;
  for (const SmallModel& small : small_sequence_models()) {
    if (small.name == "resnet" || !plan_feasible(plan, small.spec).ok) continue;
    ++tested;
    const TrainerOptions options = this->options(small.spec, LaunchMode::eager);
    const JobData data = random_data(small.spec, kRows, 11);
    JobDevices job = devices(false);
    const PlanResult result = run_plan(job, options, data, kSteps);
    const PlanReference reference = reference_run(options, data, kSteps);
    const std::string text = fmt::format("{} under {}", small.name, GetParam());
    for (size_t step = 0; step < kSteps; ++step)
      EXPECT_NEAR(result.losses[step], reference.losses[step], 2e-5 * std::max(1.0, reference.losses[step])) << text;
    EXPECT_LT(relative_difference(result.gradients, reference.gradients), 5e-5) << text;
    EXPECT_LT(relative_difference(result.parameters, reference.parameters), 2e-4) << text;
  }
  EXPECT_GT(tested, 0);
}

TEST_P(PartitionPlans, GraphsGiveTheBitsOfEagerSteps) {
  std::vector<SmallModel> models{{"deep", deep_mlp()}};
  for (const SmallModel& small : small_sequence_models())
    if (small.name == "gpt_tied" || small.name == "lstm") models.push_back(small);
  int tested = 0;
  for (const SmallModel& small : models) {
    if (!plan_feasible(plan, small.spec).ok) continue;
    ++tested;
    const JobData data = random_data(small.spec, kRows, 12);
    JobDevices first = devices(true), second = devices(true);
    const PlanResult eager = run_plan(first, options(small.spec, LaunchMode::eager), data, kSteps);
    const PlanResult graph = run_plan(second, options(small.spec, LaunchMode::graph), data, kSteps);
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
                         [](const auto& which) {
                           std::string name = which.param;
                           for (char& c : name)
                             if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
                           return name;
                         });

}  // namespace
}  // namespace amdahl::test
