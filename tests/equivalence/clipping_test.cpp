// What an update reads of the whole gradient and of the step: every strategy on 1, 2 and 4 virtual devices clips by the
// global norm, follows the schedule and decays the weights as a float64 single-device reference does.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "measure/study/step_variants.h"
#include "reference_mlp.h"
#include "small_job.h"

namespace amdahl::test {
namespace {

constexpr int64_t kClipRows = 26;
constexpr int kClipSteps = 10;
// As in strategies_test.cpp: float32 against float64, ten Adam steps amplify where v is tiny.
constexpr double kClipTolerance = 2e-5;

struct ClipCase {
  std::string strategy;
  int devices;
  std::string optimizer;
  bool overlap;
  float clip_norm;
  RatePlan plan;
};

void PrintTo(const ClipCase& c, std::ostream* out) { *out << c.strategy << " on " << c.devices; }

std::vector<ClipCase> clip_cases() {
  std::vector<ClipCase> all;
  const RatePlan warm_cosine{RateSchedule::cosine, 3, kClipSteps}, linear{RateSchedule::linear, 0, 8};
  for (const StrategyRow& row : strategy_table())
    for (const int devices : {1, 2, 4}) {
      ParallelPlan plan;
      plan.mesh.dp = devices;
      plan.global_batch = kClipRows;
      if (!row.feasible(plan).ok) continue;
      const std::string name(row.name);
      for (const bool overlap : {true, false}) {
        all.push_back({name, devices, "adamw", overlap, 0.05f, warm_cosine});
        all.push_back({name, devices, "adamw", overlap, 0, linear});
      }
      all.push_back({name, devices, "adam", true, 1e4f, {}});  // never reached: changes nothing
      all.push_back({name, devices, "sgd", true, 0.05f, warm_cosine});
    }
  return all;
}

TrainerOptions options_of(const ClipCase& c) {
  TrainerOptions options;
  options.model = odd_model(LossKind::mse);
  options.plan.strategy = c.strategy;
  options.plan.mesh.dp = c.devices;
  options.plan.global_batch = kClipRows;
  options.plan.overlap = c.overlap;
  options.plan.bucket_bytes = 6000;  // several buckets
  options.hyper.optimizer = c.optimizer;
  options.hyper.learning_rate = 1e-2f;
  options.hyper.weight_decay = 0.5f;
  options.hyper.clip_norm = c.clip_norm;
  options.hyper.rate_plan = c.plan;
  options.seed = 7;
  return options;
}

class Clipping : public ::testing::TestWithParam<ClipCase> {};

TEST_P(Clipping, EqualsOneDevice) {
  const TrainerOptions options = options_of(GetParam());
  const JobData data = random_data(options.model, kClipRows, 11);
  JobDevices devices = cpu_job_devices(GetParam().devices);
  const JobResult result = run_job(devices, options, data, kClipSteps);
  ReferenceMlp reference(options.model, options.hyper, options.seed);
  double norm = 0;
  for (int step = 0; step < kClipSteps; ++step) {
    const double loss = reference.gradients(data.features, data.targets, kClipRows, true);
    EXPECT_NEAR(result.losses[static_cast<size_t>(step)], loss, 1e-5 * std::max(1.0, loss)) << "step " << step;
    if (step == 0)
      for (const double g : reference.grads()) norm += g * g;
    reference.update();
  }
  EXPECT_GT(std::sqrt(norm), 0.1) << "the gradient is too small to be clipped";
  EXPECT_LT(relative_error(result.params[0], reference.params(), 0), kClipTolerance);
}

TEST_P(Clipping, RerunsAreBitEqualAndReplicasAgree) {
  const TrainerOptions options = options_of(GetParam());
  const JobData data = random_data(options.model, kClipRows, 11);
  JobDevices first_devices = cpu_job_devices(GetParam().devices), second_devices = cpu_job_devices(GetParam().devices);
  const JobResult first = run_job(first_devices, options, data, 3), second = run_job(second_devices, options, data, 3);
  EXPECT_EQ(first.params, second.params);
  const StrategyRow& row = find_strategy(options.plan.strategy);
  const int64_t norm_bytes = options.hyper.clip_norm > 0 ? row.norm_bytes : 0;
  for (int rank = 0; rank < GetParam().devices; ++rank)
    EXPECT_EQ(static_cast<int64_t>(first.comm_bytes[static_cast<size_t>(rank)]),
              row.traffic_bytes(options.plan, options.model, rank) + norm_bytes)
        << "rank " << rank;
  if (row.data_on_root) return;  // only rank 0 holds the updated weights
  for (const std::vector<float>& replica : first.params) EXPECT_EQ(replica, first.params[0]);
}

INSTANTIATE_TEST_SUITE_P(Table, Clipping, ::testing::ValuesIn(clip_cases()), [](const auto& test_case) {
  const ClipCase& c = test_case.param;
  return fmt::format("{}_{}dev_{}_{}_{}", c.strategy, c.devices, c.optimizer, c.overlap ? "overlap" : "serial",
                     c.clip_norm == 0  ? "unclipped"
                     : c.clip_norm > 1 ? "unreached"
                                       : "clipped");
});

// A limit that the gradient never reaches gives the bits of no limit: the scale is exactly 1.
TEST(Clipping, AnUnreachedLimitChangesNoBit) {
  for (const std::string strategy : {"ddp", "zero1"}) {
    TrainerOptions options = options_of({strategy, 2, "adam", true, 0, {}});
    const JobData data = random_data(options.model, kClipRows, 11);
    JobDevices plain_devices = cpu_job_devices(2), clipped_devices = cpu_job_devices(2);
    const JobResult plain = run_job(plain_devices, options, data, 5);
    options.hyper.clip_norm = 1e4f;
    EXPECT_EQ(run_job(clipped_devices, options, data, 5).params, plain.params) << strategy;
  }
}

// Steps with parts left out run the same updates from a rank's own gradients, without communication.
TEST(Clipping, StepPartsUpdateToo) {
  for (const StrategyRow& row : strategy_table()) {
    TrainerOptions options = options_of({std::string(row.name), 1, "adamw", true, 0.05f, {RateSchedule::linear, 1, 9}});
    const JobData data = random_data(options.model, kClipRows, 11);
    JobDevices job = cpu_job_devices(1);
    RankContext rank{0, 1, *job.devices[0], *job.ops[0], *job.communicators[0]};
    Trainer trainer(rank, options);
    const float *features = data.features.data(), *targets = data.targets.data();  // a CPU device is host memory
    for (const StepWork& work : {StepWork{}, kForwardStep, kBackwardStep, kLocalStep, kStagedStep}) {
      const std::vector<float> before = read_parameters(trainer.parts());
      trainer.launch(features, targets, work, LaunchMode::eager);
      trainer.synchronize();
      EXPECT_EQ(read_parameters(trainer.parts()) != before, work.update)
          << row.name << (work.backward ? "" : " forward") << (work.input ? " full" : "");
    }
  }
}

TEST(Clipping, AnUpdateBeforeTheNormIsRefused) {
  JobDevices job = cpu_job_devices(1);
  const ModelSpec model = odd_model(LossKind::mse);
  Model on_device(model, *job.devices[0], *job.ops[0], {.max_rows = 4});
  Hyper hyper;
  hyper.clip_norm = 1;
  const int64_t floats = on_device.layout().num_floats;
  const auto optimizer = make_optimizer(hyper, *job.devices[0], *job.ops[0], on_device, {{0, floats}});
  const auto stream = job.devices[0]->make_stream("s");
  on_device.initialise(*stream, Deadline::after_seconds(30));
  optimizer->reset(*stream);
  optimizer->begin_step(*stream);
  EXPECT_THROW(optimizer->update(*stream, 0, floats), Error);
  clip_by_own_gradients(*optimizer, *stream, {{0, floats}});
  EXPECT_NO_THROW(optimizer->update(*stream, 0, floats));
  optimizer->begin_step(*stream);
  EXPECT_THROW(optimizer->adam_step(0, floats), Error);  // the norm is that of the step before
  stream->synchronize(Deadline::after_seconds(30));
}

// One linear layer, so that the outputs can be computed from the parameters by hand.
TEST(Evaluation, HasTheMeanAbsoluteError) {
  TrainerOptions options;
  options.model = {"line", 6, {{3, true, Activation::none, 0.0}}};
  options.plan.global_batch = 8;
  constexpr int64_t kRows = 21;  // not a multiple of the batch
  const JobData data = random_data(options.model, kRows, 3);
  JobDevices job = cpu_job_devices(1);
  RankContext rank{0, 1, *job.devices[0], *job.ops[0], *job.communicators[0]};
  Trainer trainer(rank, options);
  trainer.step(data.features.data(), data.targets.data());
  const StepStats stats = evaluate(trainer.parts(), data.features.data(), data.targets.data(), kRows);
  const std::vector<float> parameters = read_parameters(trainer.parts());
  const LayerSlice& slice = trainer.parts().model.layout().layers[0];
  double absolute = 0, squared = 0;
  for (int64_t r = 0; r < kRows; ++r)
    for (int64_t o = 0; o < 3; ++o) {
      double y = parameters[static_cast<size_t>(slice.bias + o)];
      for (int64_t i = 0; i < 6; ++i)
        y += static_cast<double>(parameters[static_cast<size_t>(slice.weight + o * 6 + i)]) *
             static_cast<double>(data.features[static_cast<size_t>(r * 6 + i)]);
      const double error = y - static_cast<double>(data.targets[static_cast<size_t>(r * 3 + o)]);
      absolute += std::abs(error), squared += error * error;
    }
  EXPECT_NEAR(stats.absolute_error, absolute / (kRows * 3), 1e-6);
  EXPECT_NEAR(stats.loss, squared / (kRows * 3), 1e-5);
}

}  // namespace
}  // namespace amdahl::test
