// fp16 on a GPU, eager and by graph: gradients near those of fp32, steps that overflow are skipped as on a CPU virtual
// device, training learns; prefetched batches give the losses of resident ones bit by bit.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "measure/training/batch_pool.h"
#include "measure/training/training_data.h"
#include "sequence_models.h"
#include "train/dataset.h"

namespace amdahl::test {
namespace {

constexpr int64_t kGpuHalfRows = 24;

JobDevices gpu_job(MathMode math) {
  JobDevices job;
  job.devices = make_cuda_devices({0});
  job.devices[0]->bind_thread();
  job.ops.push_back(make_cuda_ops(*job.devices[0], {math, true}));
  job.communicators.push_back(make_lone_communicator(*job.devices[0]));
  return job;
}

TrainerOptions gpu_half_options(const ModelSpec& model, LaunchMode launch) {
  TrainerOptions options;
  options.model = model;
  options.launch = launch;
  options.plan.global_batch = kGpuHalfRows;
  options.hyper.learning_rate = 1e-2f;
  options.seed = 7;
  return options;
}

JobData times(JobData data, float factor) {
  for (float& target : data.targets) target *= factor;
  return data;
}

struct GpuHalfRun {
  std::vector<double> losses;
  std::vector<float> parameters;
  LossScale scale;
  uint64_t step = 0;
};

GpuHalfRun run_half(JobDevices& job, const TrainerOptions& options, const JobData& data, int steps) {
  RankContext rank{0, 1, *job.devices[0], *job.ops[0], *job.communicators[0]};
  Trainer trainer(rank, options);
  const auto upload = [&](const std::vector<float>& values) {
    std::unique_ptr<Buffer> buffer = rank.device.allocate(values.size() * sizeof(float));
    rank.device.copy_in(trainer.compute_stream(), buffer->data(), values.data(), buffer->bytes());
    trainer.synchronize();
    return buffer;
  };
  const auto features = upload(data.features), targets = upload(data.targets);
  GpuHalfRun run;
  for (int step = 0; step < steps; ++step) {
    trainer.step(features->as<float>(), targets->as<float>());
    run.losses.push_back(trainer.stats().loss);
  }
  run.parameters = read_parameters(trainer.parts());
  run.scale = read_loss_scale(trainer.parts()).value();
  run.step = save_state(trainer.parts()).step;
  return run;
}

class GpuHalf : public ::testing::TestWithParam<LaunchMode> {
 protected:
  void SetUp() override {
    const Availability availability = cuda_availability();
    if (!availability.ok) GTEST_SKIP() << availability.reason;
  }
};

std::vector<SmallModel> half_models() {
  std::vector<SmallModel> models{{"mlp", odd_model(LossKind::mse, 0)}};
  for (const SmallModel& model : small_sequence_models())
    if (model.name != "lstm" && model.name != "gru") models.push_back(model);
  return models;
}

TEST_P(GpuHalf, GradientsAreNearThoseOfF32) {
  for (const SmallModel& model : half_models()) {
    TrainerOptions options = gpu_half_options(model.spec, GetParam());
    options.keep_gradients = true;
    const JobData data = random_data(model.spec, kGpuHalfRows, 3);
    JobDevices exact = gpu_job(MathMode::fp32), half = gpu_job(MathMode::fp16);
    const JobResult wanted = run_job(exact, options, data, 1), found = run_job(half, options, data, 1);
    double error = 0, norm = 0;
    for (size_t i = 0; i < wanted.first_gradients.size(); ++i) {
      const double want = wanted.first_gradients[i], got = found.first_gradients[i] / kFirstLossScale;
      error += (got - want) * (got - want), norm += want * want;
    }
    EXPECT_LT(std::sqrt(error / norm), 0.02) << model.name;
    EXPECT_NEAR(found.losses[0], wanted.losses[0], 5e-3 * std::abs(wanted.losses[0])) << model.name;
  }
}

TEST_P(GpuHalf, TrainingLearns) {
  for (const SmallModel& model : half_models()) {
    JobDevices job = gpu_job(MathMode::fp16);
    const JobData data = random_data(model.spec, kGpuHalfRows, 5);
    const GpuHalfRun run = run_half(job, gpu_half_options(model.spec, GetParam()), data, 100);
    EXPECT_LT(run.losses.back(), 0.5 * run.losses.front()) << model.name;
    EXPECT_EQ(run.scale.skipped_steps, 0) << model.name;
    EXPECT_EQ(run.step, 100u) << model.name;
  }
}

// Whether a GEMM of f32 operands in fast 16-bit mode rounds them is the library's choice, so that a GPU may overflow at
// another scale than a CPU.
TEST_P(GpuHalf, AnOverflowSkipsStepsAboutAsOnACpu) {
  const ModelSpec model = small_transformer();
  const JobData data = times(random_data(model, kGpuHalfRows, 11), 1e4f);
  JobDevices gpu = gpu_job(MathMode::fp16), cpu = cpu_job_devices(1, MathMode::fp16);
  const TrainerOptions options = gpu_half_options(model, GetParam());
  const GpuHalfRun none = run_half(gpu, options, data, 0), first = run_half(gpu, options, data, 1);
  EXPECT_EQ(first.parameters, none.parameters);
  EXPECT_EQ(first.step, 0u);
  EXPECT_EQ(first.scale.scale, kFirstLossScale / 2);
  const GpuHalfRun run = run_half(gpu, options, data, 40);
  const GpuHalfRun wanted = run_half(cpu, gpu_half_options(model, LaunchMode::eager), data, 40);
  EXPECT_GT(run.scale.skipped_steps, 1);
  EXPECT_NEAR(run.scale.skipped_steps, wanted.scale.skipped_steps, 3);
  EXPECT_EQ(run.scale.scale, kFirstLossScale / std::pow(2.0f, run.scale.skipped_steps));
  EXPECT_EQ(run.step, 40 - static_cast<uint64_t>(run.scale.skipped_steps));
  EXPECT_LT(run.losses.back(), run.losses.front());
}

TEST_P(GpuHalf, PrefetchedBatchesChangeNoBit) {
  const ModelSpec model = small_gpt(true);
  std::vector<double> losses[2];
  for (const InputMode mode : {InputMode::resident, InputMode::prefetch}) {
    TrainerOptions options = gpu_half_options(model, GetParam());
    options.plan.input = static_cast<int64_t>(mode);
    const Dataset data = make_model_data(model, 300, 5);
    const Split split = split_data(data, 0.2, 5);
    JobDevices job = gpu_job(MathMode::fp32);
    RankContext rank{0, 1, *job.devices[0], *job.ops[0], *job.communicators[0]};
    Trainer trainer(rank, options);
    const Deadline soon = Deadline::after_seconds(60);
    std::vector<double>& all = losses[static_cast<size_t>(mode)];
    const auto input = make_training_data(rank, trainer, data, split, options.plan, soon);
    for (int epoch = 0; epoch < 2; ++epoch) {
      input->select(split.train, soon);
      for (int64_t first = 0; first + kGpuHalfRows <= static_cast<int64_t>(split.train.size()); first += kGpuHalfRows) {
        input->step(first);
        all.push_back(trainer.stats().loss);
      }
      all.push_back(input->validate().loss);
    }
    BatchPool pool(trainer, rank.device, data, options.plan, 4, soon);
    for (size_t i = 0; i < 30; ++i) {  // queued, without waits of the host
      const StepBatch batch = pool.take(i % pool.size());
      trainer.step(batch.features, batch.targets);
      pool.done();
    }
    all.push_back(trainer.stats().loss);
  }
  EXPECT_EQ(losses[0], losses[1]);
}

INSTANTIATE_TEST_SUITE_P(Launch, GpuHalf, ::testing::Values(LaunchMode::eager, LaunchMode::graph),
                         [](const auto& mode) { return std::string(to_string(mode.param)); });

}  // namespace
}  // namespace amdahl::test
