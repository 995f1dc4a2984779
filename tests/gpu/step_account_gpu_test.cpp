// The step account on one GPU is of the step that was measured, eager and by graph: nothing in it is slower for being
// looked at.
#include <gtest/gtest.h>

#include "accounted_cell.h"
#include "measure/study/step_account.h"
#include "plans_gpu.h"
#include "stats/summary.h"

namespace amdahl::test {
namespace {

class GpuAccount : public ::testing::TestWithParam<std::pair<int64_t, LaunchMode>> {};

TEST_P(GpuAccount, IsOfTheMeasuredStep) {
  const Availability availability = cuda_availability();
  if (!availability.ok) GTEST_SKIP() << availability.reason;
  const auto [batch, launch] = GetParam();
  JobDevices job;
  job.devices = make_cuda_devices({0});
  job.devices.front()->bind_thread();
  job.ops.push_back(make_cuda_ops(*job.devices.front(), {MathMode::tf32, false}));
  job.communicators.push_back(make_lone_communicator(*job.devices.front()));
  TrainerOptions options;
  options.model = find_model_preset("medium-258k");
  options.plan.strategy = "single";
  options.plan.global_batch = batch;
  options.launch = launch;
  std::vector<double> ratios;
  for (const auto& run : run_cell(job, options, 5, 100)) {
    const AccountedStep account = account_step({run.front().parts});
    EXPECT_NEAR(account.compute + account.launch_gaps + account.optimizer, account.step, 1e-6 * account.step);
    EXPECT_GT(account.forward, 0);
    EXPECT_GT(account.backward, 0);
    EXPECT_GT(account.launch_kernels, 0);
    EXPECT_GT(account.launch_floor, 0);
    if (launch == LaunchMode::graph) {
      EXPECT_EQ(account.launch_gaps, 0);
    }
    ratios.push_back(account.step / run.front().step_us);
  }
  EXPECT_NEAR(median_of(ratios), 1, 0.05);
}

/// Sums of tensor parallelism, which are found by leaving them out, of steps that are replayed as a graph.
TEST(GpuTensorAccount, SeesTheSums) {
  const Availability availability = cuda_availability();
  if (!availability.ok) GTEST_SKIP() << availability.reason;
  std::string why;
  JobDevices job = plan_job_on_gpus(2, true, why, {MathMode::tf32, false});
  if (job.devices.empty()) GTEST_SKIP() << why;
  TrainerOptions options;
  options.model = find_model_preset("large");
  options.plan = parse_plan("tp2");
  options.plan.global_batch = 4096;
  options.launch = LaunchMode::graph;
  std::vector<double> sums;
  for (const auto& run : run_cell(job, options, 3, 20)) {
    const AccountedStep account = account_step({run[0].parts, run[1].parts});
    sums.push_back(account.tp_communication / account.step);
  }
  EXPECT_GT(median_of(sums), 0.05);
}

INSTANTIATE_TEST_SUITE_P(Launches, GpuAccount,
                         ::testing::Values(std::pair{64, LaunchMode::eager}, std::pair{64, LaunchMode::graph},
                                           std::pair{8192, LaunchMode::eager}, std::pair{8192, LaunchMode::graph}));

}  // namespace
}  // namespace amdahl::test
