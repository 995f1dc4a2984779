// Plans of a mesh on GPUs equal one device in float64, as plans_test.cpp on CPU virtual devices; and operations on
// shards of a vocabulary. Cases for more GPUs than there are skip, saying so.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <numeric>

#include "base/plan_rules.h"
#include "plans_gpu.h"
#include "sequence_models.h"
#include "shard_ops.h"

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
  int tested = 0;
  for (const SmallModel& small : small_sequence_models()) {
    if (small.name == "resnet" || !plan_feasible(plan, small.spec).ok) continue;
    ++tested;
    JobDevices job;
    std::vector<int> indices(static_cast<size_t>(world));
    std::iota(indices.begin(), indices.end(), 0);
    job.devices = make_cuda_devices(indices);
    std::vector<Device*> devices;
    for (auto& device : job.devices) {
      device->bind_thread();
      job.ops.push_back(make_cuda_ops(*device, {MathMode::fp32, false}));
      devices.push_back(device.get());
    }
    job.communicators = make_nccl_communicators(devices, 60);
    expect_one_device(job, plan_options_on_gpus(small.spec, plan), fmt::format("{} under {}", small.name, GetParam()));
  }
  EXPECT_GT(tested, 0);
}

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
