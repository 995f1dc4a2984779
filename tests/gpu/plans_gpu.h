// What tests of plans on GPUs share: options of a small training job, and what it must equal.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>

#include "plan_job.h"
#include "reused_communicator.h"
#include "several_gpus.h"
#include "symmetric/symmetric_collectives.h"

namespace amdahl::test {

constexpr int64_t kPlanRows = 24;
constexpr int kPlanSteps = 5;

inline TrainerOptions plan_options_on_gpus(const ModelSpec& model, const ParallelPlan& plan,
                                           LaunchMode launch = LaunchMode::eager) {
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

/// GPUs or partitions of the only one, with what connects them: NCCL, or collectives in symmetric memory, made once for
/// all models that the job runs. No devices: there are too few, and `why` says so.
inline JobDevices plan_job_on_gpus(int world, bool symmetric, std::string& why, const OpsOptions& ops = {}) {
  JobDevices job;
  job.devices = gpus_or_partitions(world, why);
  std::vector<Device*> devices;
  for (auto& device : job.devices) {
    device->bind_thread();
    job.ops.push_back(make_cuda_ops(*device, ops));
    devices.push_back(device.get());
  }
  if (devices.empty()) return job;
  job.communicators = symmetric ? make_symmetric_communicators(devices, make_inproc_communicators(world, 60), 60, {})
                                : make_nccl_communicators(devices, 60);
  return with_reused_communicators(std::move(job));
}

/// Trains kPlanSteps steps and expects losses, gradients and parameters of one device in float64.
inline void expect_one_device(JobDevices& job, const TrainerOptions& options, const std::string& text) {
  const JobData data = random_data(options.model, kPlanRows, 11);
  const PlanResult result = run_plan(job, options, data, kPlanSteps);
  const PlanReference reference = reference_run(options, data, kPlanSteps);
  for (size_t step = 0; step < kPlanSteps; ++step)
    EXPECT_NEAR(result.losses[step], reference.losses[step], 2e-5 * std::max(1.0, reference.losses[step])) << text;
  EXPECT_LT(relative_difference(result.gradients, reference.gradients), 5e-5) << text;
  EXPECT_LT(relative_difference(result.parameters, reference.parameters), 2e-4) << text;
}

}  // namespace amdahl::test
