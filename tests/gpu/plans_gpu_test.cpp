// Plans of a mesh on GPUs equal one device in float64, as plans_test.cpp on CPU virtual devices; and operations on
// shards of a vocabulary. Cases for more GPUs than there are skip, saying so.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <random>

#include "plan/plan_rules.h"
#include "plans_gpu.h"
#include "random_plans.h"
#include "sequence_models.h"
#include "shard_ops.h"
#include "train/replicas.h"

namespace amdahl::test {
namespace {

TEST(GpuShardOps, EqualFloat64) {
  const Availability availability = cuda_availability();
  if (!availability.ok) GTEST_SKIP() << availability.reason;
  const auto devices = make_cuda_devices({0});
  devices[0]->bind_thread();
  const auto ops = make_cuda_ops(*devices[0], {MathMode::fp32, false});
  const auto stream = devices[0]->make_stream("compute");
  expect_shards(*devices[0], *ops, *stream);
}

// Each tensor-parallel rank steps its shard of the first layer as its gradient is made, on GPUs or partitions.
TEST(GpuPlansFusedUpdate, GivesTheBitsOfGradientAndUpdateApart) {
  const Availability availability = cuda_availability();
  if (!availability.ok) GTEST_SKIP() << availability.reason;
  std::string why;
  JobDevices job = plan_job_on_gpus(2, true, why, {MathMode::tf32, false});
  if (job.devices.empty()) GTEST_SKIP() << why;
  constexpr int64_t kWidth = 2048, kUnits = 1032;  // each rank has 516
  const ModelSpec model{
      "m",
      kWidth,
      {{kUnits, true, Activation::relu, 0.25}, {64, true, Activation::relu, 0.0}, {3, true, Activation::none, 0.0}},
      LossKind::mse};
  ParallelPlan plan = parse_plan("tp2");
  plan.global_batch = 64;
  TrainerOptions options = plan_options_on_gpus(model, plan);
  options.hyper.clip_norm = 0;  // the norm needs all gradients before any update
  const JobData data = random_data(model, plan.global_batch, 11);
  if (!job.ops[0]->gemm().fuses_update(plan.global_batch, kWidth, kUnits / 2))
    GTEST_SKIP() << "this update is not fused on " << job.devices[0]->spec().sm_count << " multiprocessors";
  options.keep_gradients = false;
  const PlanResult fused = run_plan(job, options, data, kPlanSteps);
  options.keep_gradients = true;
  const PlanResult apart = run_plan(job, options, data, kPlanSteps);
  EXPECT_EQ(fused.parameters, apart.parameters);
  EXPECT_EQ(fused.losses, apart.losses);
}

/// A bit of what a rank holds alone that changes between two steps is found at the next check, in each array.
TEST(GpuLostBits, OfPartsThatOneRankHoldsAreFound) {
  const Availability availability = cuda_availability();
  if (!availability.ok) GTEST_SKIP() << availability.reason;
  ASSERT_TRUE(kLoadsAtStart);
  std::string why;
  JobDevices job = plan_job_on_gpus(2, true, why);
  if (job.devices.empty()) GTEST_SKIP() << why;
  // Clipping keeps zero1 on collectives. Its fused update hangs on partitions: most likely their streams share hardware
  // queues, and a kernel that waits for the other rank stands before that rank's kernel.
  const bool partitions = job.devices[0]->spec().index == job.devices[1]->spec().index;
  std::mt19937 random(41);
  for (const char* strategy : {"zero1", "zero2", "zero3"})
    for (const char* optimizer : {"adam", "sgd"})
      for (const LaunchMode launch : {LaunchMode::eager, LaunchMode::graph})
        for (int array = -1; array <= (std::string(optimizer) == "adam" ? 2 : 1); ++array) {  // -1: none
          ParallelPlan plan = parse_plan(fmt::format("dp2,{}", strategy));
          plan.global_batch = kPlanRows;
          TrainerOptions options = plan_options_on_gpus(small_mlp(LossKind::mse), plan, launch);
          options.hyper.optimizer = optimizer;
          options.hyper.clip_norm = partitions ? 0.5f : 0;
          options.keep_gradients = false;
          const uint32_t place = random(), bit = random() % 32;
          bool found = false;
          const JobData data = random_data(options.model, kPlanRows, 11);
          on_trainers(job, options, data, [&](Trainer& trainer, const float* features, const float* targets, int rank) {
            for (int step = 0; step < 5; ++step) {
              trainer.step(features, targets);
              trainer.synchronize();
              if (step != 2 || rank != 1 || array < 0) continue;
              float* const at = own_arrays(trainer.parts())[static_cast<size_t>(array)] +
                                place % static_cast<uint32_t>(trainer.parts().owned().front().floats());
              Device& device = *job.devices[1];
              uint32_t word = 0;
              device.copy_out(trainer.compute_stream(), &word, at, sizeof word);
              trainer.synchronize();
              word ^= uint32_t{1} << bit;
              device.copy_in(trainer.compute_stream(), at, &word, sizeof word);
              trainer.synchronize();
            }
            try {
              check_own_state(trainer.parts(), "now");
            } catch (const Error& error) {
              EXPECT_EQ(error.cause(), Cause::check_failed);
              EXPECT_EQ(rank, 1) << error.what();
              found = true;
            }
          });
          EXPECT_EQ(found, array >= 0) << strategy << ' ' << optimizer << " array " << array << ' '
                                       << to_string(launch);
        }
}

/// Also of partitions of one GPU, where there is one.
TEST(GpuVirtualShards, GiveTheSameBitsOnAnyNumberOfDevices) {
  const Availability availability = cuda_availability();
  if (!availability.ok) GTEST_SKIP() << availability.reason;
  ASSERT_TRUE(kLoadsAtStart);
  const auto present = static_cast<int>(list_cuda_devices().size());
  const int most = present > 1 ? std::min(4, present) : 4;
  for (const MathMode math : {MathMode::fp32, MathMode::bf16}) {
    std::map<std::string, PlanResult> one;
    for (int devices = 1; devices <= most; ++devices) {
      std::string why;
      JobDevices job = plan_job_on_gpus(devices, true, why, {math, true});
      if (job.devices.empty()) GTEST_SKIP() << why;
      for (const SmallModel& small : small_models()) {
        if (small.name == "gpt_wide") continue;  // its heads of 4 have no attention on GPUs
        ParallelPlan plan = parse_plan(fmt::format("dp{},shards8", devices));
        plan.global_batch = kPlanRows;
        const TrainerOptions options = plan_options_on_gpus(small.spec, plan);
        const JobData data = random_data(small.spec, plan.global_batch, 11);
        const PlanResult result = run_plan(job, options, data, kPlanSteps);
        const PlanResult& first = one.try_emplace(small.name, result).first->second;
        const std::string what = fmt::format("{} on {} devices in {}", small.name, devices, to_string(math));
        EXPECT_EQ(result.losses, first.losses) << what;
        EXPECT_EQ(result.gradients, first.gradients) << what;
        for (const std::vector<float>& replica : result.replica) EXPECT_EQ(replica, first.replica[0]) << what;
      }
    }
  }
}

class GpuPlans : public ::testing::TestWithParam<std::string> {};

TEST_P(GpuPlans, EqualOneDeviceInFloat64) {
  const Availability availability = cuda_availability();
  if (!availability.ok) GTEST_SKIP() << availability.reason;
  ParallelPlan plan = parse_plan(GetParam());
  plan.global_batch = kPlanRows;
  const int world = plan.num_devices();
  const auto present = static_cast<int>(list_cuda_devices().size());
  if (present < world) GTEST_SKIP() << world << " GPUs are needed and " << present << " are here";
  if (const Availability nccl = nccl_availability(); !nccl.ok) GTEST_SKIP() << nccl.reason;
  std::string why;
  JobDevices job = plan_job_on_gpus(world, false, why);  // communicators of NCCL take seconds: one set for all models
  if (job.devices.empty()) GTEST_SKIP() << why;
  int tested = 0;
  for (const SmallModel& small : small_sequence_models()) {
    if (small.name == "resnet" || !plan_feasible(plan, small.spec).ok) continue;
    ++tested;
    expect_one_device(job, plan_options_on_gpus(small.spec, plan), fmt::format("{} under {}", small.name, GetParam()));
  }
  EXPECT_GT(tested, 0);
}

/// Plans of up to four GPUs over NCCL or over symmetric memory; of two partitions where there is one GPU.
class RandomGpuPlans : public ::testing::TestWithParam<bool> {};

TEST_P(RandomGpuPlans, EqualOneDeviceInFloat64) {
  constexpr int kPlans = 12;
  const Availability availability = cuda_availability();
  if (!availability.ok) GTEST_SKIP() << availability.reason;
  ASSERT_TRUE(kLoadsAtStart);
  const bool symmetric = GetParam();
  const auto present = static_cast<int>(list_cuda_devices().size());
  if (!symmetric && present < 2) GTEST_SKIP() << "NCCL needs two GPUs, and one is here";
  if (const Availability nccl = nccl_availability(); !symmetric && !nccl.ok) GTEST_SKIP() << nccl.reason;
  std::mt19937_64 random(plan_seed());
  const std::vector<SmallModel> models = small_sequence_models();
  struct Drawn {
    const SmallModel* small;
    ParallelPlan plan;
  };
  std::map<int, std::vector<Drawn>> by_devices;  // whose communicators serve all plans of as many
  int found = 0;
  for (int tried = 0; found < kPlans && tried < 100000; ++tried) {
    const SmallModel& small = models[random() % models.size()];
    const ParallelPlan plan = draw_plan(random, std::clamp(present, 2, 4), kPlanRows);
    if (small.name == "resnet" || plan.num_devices() < 2 || !plan_feasible(plan, small.spec).ok) continue;
    ++found;
    by_devices[plan.num_devices()].push_back({&small, plan});
  }
  EXPECT_EQ(found, kPlans);
  for (const auto& [world, all] : by_devices) {
    std::string why;
    JobDevices job = plan_job_on_gpus(world, symmetric, why);
    if (job.devices.empty()) GTEST_SKIP() << why;
    for (const auto& [small, plan] : all)
      expect_one_device(job, plan_options_on_gpus(small->spec, plan),
                        fmt::format("{} under {} (PLAN_SEED={})", small->name, format_plan(plan), plan_seed()));
  }
}

INSTANTIATE_TEST_SUITE_P(Mesh, RandomGpuPlans, ::testing::Bool(),
                         [](const auto& which) { return which.param ? "symmetric" : "nccl"; });

INSTANTIATE_TEST_SUITE_P(Mesh, GpuPlans,
                         ::testing::Values("tp2", "pp2,1f1b,m4", "pp2,gpipe,m2", "pp2,zb-h1,m4",
                                           "pp2,interleaved,m2,split=flops", "pp2,zb-v,m4,split=flops", "dp2,m2",
                                           "dp2,zero1", "tp2.pp2,m2", "dp2.pp2,m2,zero1", "dp2.tp2",
                                           "dp2.tp2.pp2,m2,zero1", "dp2,zero2", "dp2,zero2,m2", "dp2,zero3",
                                           "dp2,zero3,m2,recompute=block", "tp2,sp", "tp2,sp,recompute=block",
                                           "dp2.tp2,sp,zero3", "dp2.pp2,m2,zero3", "dp2.tp2.pp2,m2,sp,zero2",
                                           "dp2.pp2,m4,zb-h1,zero3"),
                         [](const auto& which) { return test_name(which.param); });

}  // namespace
}  // namespace amdahl::test
