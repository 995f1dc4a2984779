// A small training job under any plan of a mesh, and its float64 reference.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "small_job.h"

namespace amdahl::test {

/// What a job ends with, in the layout of one device.
struct PlanResult {
  std::vector<double> losses;               // per step
  double correct = 0;                       // of the last step
  std::vector<float> gradients;             // of the first step
  std::vector<float> parameters;            // after the last step
  std::vector<std::vector<float>> replica;  // what each rank holds
};

/// Runs `steps` steps on the same batch; options.plan is complete.
PlanResult run_plan(JobDevices& job, const TrainerOptions& options, const JobData& data, int steps);
/// The same on CPU virtual devices.
PlanResult run_plan(const TrainerOptions& options, const JobData& data, int steps);

/// Work of one rank: `features` and `targets` are the rows that its trainer wants, null where it wants none.
using TrainerWork = std::function<void(Trainer& trainer, const float* features, const float* targets, int rank)>;
/// Makes a trainer on every rank of CPU virtual devices and calls `work` there, in the rank's thread.
void on_trainers(JobDevices& job, const TrainerOptions& options, const JobData& data, const TrainerWork& work);
void on_trainers(const TrainerOptions& options, const JobData& data, const TrainerWork& work);

/// Called in every rank's thread; each may be null.
struct RunHooks {
  std::function<void(Trainer& trainer, int rank)> after_step{};  // of every step
  std::function<void(Trainer& trainer, int rank)> at_end{};      // before the state is saved
};
/// Trains `steps` steps on the same batch from `from` (null: from the beginning) and returns the state after them.
TrainerState run_from(JobDevices& job, const TrainerOptions& options, const JobData& data, int steps,
                      const TrainerState* from, const RunHooks& hooks = {});
TrainerState run_from(const TrainerOptions& options, const JobData& data, int steps, const TrainerState* from,
                      const RunHooks& hooks = {});

/// Losses, gradients of the first step and parameters after the last one of a single device in float64. With
/// `micro_batches` above 1 the batch is cut into as many equal parts, for models with batch normalisation.
struct PlanReference {
  std::vector<double> losses;
  std::vector<double> gradients, parameters;
};
PlanReference reference_run(const TrainerOptions& options, const JobData& data, int steps, int64_t micro_batches = 1);

/// Bytes that the fullest CPU virtual device holds at most for a trainer and its steps.
double allocated_bytes_of(const ModelSpec& model, const ParallelPlan& plan, int steps);

/// A plan's text as the name of a test.
std::string test_name(std::string plan);

/// ||a - b|| / ||b||.
double relative_difference(const std::vector<float>& a, const std::vector<double>& b);

}  // namespace amdahl::test
