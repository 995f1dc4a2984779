// Prefetched batches: the steps, losses and weights of resident ones bit by bit, and the copy that is not hidden is the
// part `input` of the step account.
#include <gtest/gtest.h>

#include <algorithm>

#include "accounted_cell.h"
#include "measure/study/step_account.h"
#include "measure/training/training_data.h"
#include "sequence_models.h"
#include "small_job.h"
#include "train/dataset.h"

namespace amdahl::test {
namespace {

Deadline input_deadline() { return Deadline::after_seconds(60); }

struct InputCase {
  const char* strategy;
  int devices;
};

TrainerOptions input_options(const InputCase& c, const ModelSpec& model, InputMode mode) {
  TrainerOptions options;
  options.model = model;
  options.plan.strategy = c.strategy;
  options.plan.mesh.dp = c.devices;
  options.plan.global_batch = 12;
  options.plan.input = static_cast<int64_t>(mode);
  return options;
}

/// Calls `work` on every rank of a job.
void on_every_rank(const TrainerOptions& options, const std::function<void(RankContext&)>& work) {
  const int world = options.plan.num_devices();
  JobDevices job = cpu_job_devices(world);
  run_rank_threads(
      world,
      [&](int index) {
        const auto r = static_cast<size_t>(index);
        RankContext rank{index, world, *job.devices[r], *job.ops[r], *job.communicators[r]};
        work(rank);
      },
      [&](const Error& cause) {
        for (auto& communicator : job.communicators) communicator->abort(cause);
      });
}

struct Trained {
  std::vector<double> losses;  // of every step, then of the validation rows after each epoch
  std::vector<float> parameters;
};

Trained train_epochs(const TrainerOptions& options, double validation) {
  const Dataset data = make_model_data(options.model, 67, 5);
  const Split split = split_data(data, validation, 5);
  Trained result;
  on_every_rank(options, [&](RankContext& rank) {
    Trainer trainer(rank, options);
    const auto input = make_training_data(rank, trainer, data, split, options.plan, input_deadline());
    const auto steps = static_cast<int64_t>(split.train.size()) / options.plan.global_batch;
    for (uint64_t epoch = 1; epoch <= 3; ++epoch) {
      std::vector<int32_t> order = permutation(static_cast<int64_t>(split.train.size()), 5, epoch);
      for (int32_t& row : order) row = split.train[static_cast<size_t>(row)];
      input->select(order, input_deadline());
      for (int64_t step = epoch == 2 ? 1 : 0; step < steps; ++step) {  // the second one as after a resume
        input->step(step * options.plan.global_batch);
        const double loss = trainer.stats().loss;
        if (rank.rank == 0) result.losses.push_back(loss);
      }
      if (rank.rank == 0 && validation > 0) result.losses.push_back(input->validate().loss);
      rank.communicator.barrier(input_deadline());
    }
    if (rank.rank == 0) result.parameters = read_parameters(trainer.parts());
  });
  return result;
}

TEST(InputMode, TrainingIsEqualBitByBit) {
  for (const InputCase& c : {InputCase{"single", 1}, {"ddp", 2}, {"zero1", 3}, {"dp", 2}, {"replicated", 2}})
    for (const ModelSpec& model : {odd_model(LossKind::mse), small_gpt(true), small_resnet()})
      for (const double validation : {0.0, 0.25}) {
        const Trained resident = train_epochs(input_options(c, model, InputMode::resident), validation);
        const Trained prefetched = train_epochs(input_options(c, model, InputMode::prefetch), validation);
        EXPECT_EQ(prefetched.losses, resident.losses) << c.strategy << ", " << model.name;
        EXPECT_EQ(prefetched.parameters, resident.parameters) << c.strategy << ", " << model.name;
      }
}

TEST(InputMode, TimedStepsCycleThroughTheSameBatches) {
  for (const InputCase& c : {InputCase{"single", 1}, {"ddp", 2}, {"dp", 2}})
    for (const int batches : {1, 2, 3, 4}) {
      std::vector<double> losses[2];
      for (const InputMode mode : {InputMode::resident, InputMode::prefetch}) {
        const TrainerOptions options = input_options(c, odd_model(LossKind::mse), mode);
        const Dataset data = make_model_data(options.model, 60, 9);
        on_every_rank(options, [&](RankContext& rank) {
          Trainer trainer(rank, options);
          BatchPool pool(trainer, rank.device, data, options.plan, batches, input_deadline());
          for (const size_t batch : {0, 0, 1, 2, 3, 0, 1, 0, 2, 2, 1}) {
            const StepBatch input = pool.take(batch % pool.size());
            trainer.step(input.features, input.targets);
            pool.done();
            const double loss = trainer.stats().loss;
            if (rank.rank == 0) losses[static_cast<size_t>(mode)].push_back(loss);
          }
        });
      }
      EXPECT_EQ(losses[0], losses[1]) << c.strategy << " with " << batches;
    }
}

// Wide rows and one output: the copy of a batch takes as long as the step, which reads the batch once. Shared machines
// stall at times, so that one of several accounts must show it.
TEST(InputMode, TheExposedCopyIsThePartInput) {
  TrainerOptions options = input_options({"single", 1}, {}, InputMode::prefetch);
  options.model = {"wide", 20'000, {LayerSpec{1, true, Activation::none, 0.0}}};
  options.plan.global_batch = 256;
  double largest = 0;
  for (int attempt = 0; attempt < 5 && largest <= 0; ++attempt) {
    JobDevices job = cpu_job_devices(1);
    for (const auto& run : run_cell(job, options, 2, 10)) {
      const AccountedStep account = account_step({run.front().parts});
      EXPECT_NEAR(account.compute + account.exposed_communication + account.waiting + account.launch_gaps +
                      account.input + account.optimizer,
                  account.step, 1e-9 * account.step);
      largest = std::max(largest, account.input);
    }
  }
  EXPECT_GT(largest, 0);
}

}  // namespace
}  // namespace amdahl::test
