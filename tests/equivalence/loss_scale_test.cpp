// fp16 with dynamic loss scaling on virtual devices: gradients near those of fp32, an overflow that is planted skips
// its steps on every rank alike, training goes on below the scale that fits, and a resumed training is equal bit by
// bit.
#include <gtest/gtest.h>

#include <cmath>

#include "plan_job.h"
#include "sequence_models.h"

namespace amdahl::test {
namespace {

constexpr int64_t kHalfRows = 24;

TrainerOptions half_options(const ModelSpec& model, const std::string& strategy, int devices) {
  TrainerOptions options;
  options.model = model;
  options.plan.strategy = strategy;
  options.plan.mesh.dp = devices;
  options.plan.global_batch = kHalfRows;
  options.plan.bucket_bytes = 6000;
  options.hyper.learning_rate = 1e-2f;
  options.seed = 7;
  return options;
}

/// Targets so large that the scaled gradient of the loss is beyond half precision until the scale is a few hundred
/// times smaller.
JobData overflowing_data(const ModelSpec& model) {
  JobData data = random_data(model, kHalfRows, 11);
  for (float& target : data.targets) target *= 1e4f;
  return data;
}

struct HalfResult {
  TrainerState state;                          // of rank 0
  std::vector<double> losses;                  // of the global batch
  std::vector<LossScale> scales;               // by rank
  std::vector<std::vector<float>> parameters;  // by rank
};

HalfResult run_half(const TrainerOptions& options, const JobData& data, int steps, const TrainerState* from = nullptr) {
  const auto world = static_cast<size_t>(options.plan.num_devices());
  JobDevices job = cpu_job_devices(options.plan.num_devices(), MathMode::fp16);
  HalfResult result;
  result.scales.resize(world);
  result.parameters.resize(world);
  RunHooks hooks;
  hooks.after_step = [&](Trainer& trainer, int rank) {
    const double loss = trainer.stats().loss;
    if (rank == 0) result.losses.push_back(loss);
  };
  hooks.at_end = [&](Trainer& trainer, int rank) {
    result.scales[static_cast<size_t>(rank)] = read_loss_scale(trainer.parts()).value();
    result.parameters[static_cast<size_t>(rank)] = read_parameters(trainer.parts());
  };
  result.state = run_from(job, options, data, steps, from, hooks);
  return result;
}

double norm_of(const std::vector<float>& values) {
  double sum = 0;
  for (const float value : values) sum += double{value} * double{value};
  return std::sqrt(sum);
}

class HalfModels : public ::testing::TestWithParam<SmallModel> {};

// Half precision keeps 11 bits; the errors of the products of a few layers add up, and those of a normalisation over
// few values are amplified.
TEST_P(HalfModels, GradientsAreNearThoseOfF32) {
  TrainerOptions options = half_options(GetParam().spec, "single", 1);
  options.keep_gradients = true;
  const JobData data = random_data(options.model, kHalfRows, 3);
  JobDevices exact = cpu_job_devices(1), half = cpu_job_devices(1, MathMode::fp16);
  const JobResult wanted = run_job(exact, options, data, 1);
  JobResult found = run_job(half, options, data, 1);
  ASSERT_EQ(found.first_gradients.size(), wanted.first_gradients.size());
  std::vector<float> difference(found.first_gradients.size());
  for (size_t i = 0; i < difference.size(); ++i)
    difference[i] = found.first_gradients[i] / kFirstLossScale - wanted.first_gradients[i];
  const double relative = norm_of(difference) / norm_of(wanted.first_gradients);
  EXPECT_LT(relative, 0.02);
  EXPECT_GT(relative, 1e-6) << "nothing was rounded to half precision";
  EXPECT_NEAR(found.losses[0], wanted.losses[0], 5e-3 * std::abs(wanted.losses[0]));
}

TEST_P(HalfModels, OverfitOneBatch) {
  const TrainerOptions options = half_options(GetParam().spec, "single", 1);
  const HalfResult result = run_half(options, random_data(options.model, kHalfRows, 5), 60);
  EXPECT_LT(result.losses.back(), 0.5 * result.losses.front());
  EXPECT_EQ(result.scales[0].skipped_steps, 0);
  EXPECT_EQ(result.scales[0].good_steps, 60);
  EXPECT_EQ(result.state.step, 60u);
}

std::vector<SmallModel> half_models() {
  std::vector<SmallModel> models{{"mlp", odd_model(LossKind::mse, 0)}};
  for (const SmallModel& model : small_sequence_models())
    if (model.name != "lstm" && model.name != "gru") models.push_back(model);
  return models;
}

INSTANTIATE_TEST_SUITE_P(Cpu, HalfModels, ::testing::ValuesIn(half_models()),
                         [](const auto& model) { return model.param.name; });

TEST(LossScaling, AnOverflowSkipsTheStepAndHalvesTheScale) {
  const TrainerOptions options = half_options(odd_model(LossKind::mse), "single", 1);
  const JobData data = overflowing_data(options.model);
  const HalfResult before = run_half(options, data, 0), first = run_half(options, data, 1);
  EXPECT_EQ(first.parameters, before.parameters);
  EXPECT_EQ(first.state.optimizer, before.state.optimizer);
  EXPECT_EQ(first.state.step, 0u);
  EXPECT_EQ(first.scales[0].scale, kFirstLossScale / 2);
  EXPECT_EQ(first.scales[0].skipped_steps, 1);
  const HalfResult later = run_half(options, data, 40);
  const float skipped = later.scales[0].skipped_steps;
  EXPECT_GT(skipped, 4);
  EXPECT_LT(skipped, 20);
  EXPECT_EQ(later.scales[0].scale, kFirstLossScale / std::pow(2.0f, skipped));
  EXPECT_EQ(later.state.step, 40 - static_cast<uint64_t>(skipped));
  EXPECT_LT(later.losses.back(), later.losses.front());
  for (const float value : later.state.parameters) ASSERT_TRUE(std::isfinite(value));
}

// Ranks add up their parts of the gradient in another order, which rounds differently; Adam amplifies that where its
// second moment is tiny.
TEST(LossScaling, RanksDecideAlikeUnderEveryStrategy) {
  const ModelSpec model = odd_model(LossKind::mse);
  const JobData data = overflowing_data(model);
  const HalfResult one = run_half(half_options(model, "single", 1), data, 20);
  for (const StrategyRow& row : strategy_table())
    for (const int devices : {2, 4}) {
      const TrainerOptions options = half_options(model, std::string(row.name), devices);
      if (!row.feasible(options.plan).ok) continue;
      const HalfResult several = run_half(options, data, 20);
      for (const LossScale& scale : several.scales) {
        EXPECT_EQ(scale.scale, one.scales[0].scale) << row.name << " on " << devices;
        EXPECT_EQ(scale.skipped_steps, one.scales[0].skipped_steps) << row.name << " on " << devices;
      }
      for (size_t step = 0; step < one.losses.size(); ++step)
        EXPECT_NEAR(several.losses[step] / one.losses[step], 1, 1e-3) << row.name << " on " << devices;
      if (!row.replicas) continue;
      for (const std::vector<float>& parameters : several.parameters) EXPECT_EQ(parameters, several.parameters[0]);
    }
}

TEST(LossScaling, AResumedTrainingIsEqualBitByBit) {
  const ModelSpec model = odd_model(LossKind::mse);
  const JobData data = overflowing_data(model);
  for (const char* strategy : {"single", "ddp", "zero1"}) {
    const TrainerOptions options = half_options(model, strategy, strategy == std::string("single") ? 1 : 2);
    const HalfResult whole = run_half(options, data, 20), part = run_half(options, data, 5);
    EXPECT_GT(part.scales[0].skipped_steps, 0);
    const HalfResult rest = run_half(options, data, 15, &part.state);
    EXPECT_EQ(rest.state.parameters, whole.state.parameters) << strategy;
    EXPECT_EQ(rest.state.optimizer, whole.state.optimizer) << strategy;
    EXPECT_EQ(rest.state.step, whole.state.step) << strategy;
    EXPECT_EQ(rest.scales[0].scale, whole.scales[0].scale) << strategy;
    EXPECT_EQ(rest.scales[0].good_steps, whole.scales[0].good_steps) << strategy;
    EXPECT_EQ(rest.scales[0].skipped_steps, whole.scales[0].skipped_steps) << strategy;
  }
}

TEST(LossScaling, DoublesAfterManyGoodStepsAndClips) {
  LossScale state;
  for (int step = 0; step < 1999; ++step) EXPECT_EQ(advance_loss_scale(state, 4.0f, 0, 1e-6f), 1 / kFirstLossScale);
  EXPECT_EQ(state.scale, kFirstLossScale);
  advance_loss_scale(state, 4.0f, 0, 1e-6f);
  EXPECT_EQ(state.scale, 2 * kFirstLossScale);
  EXPECT_EQ(state.good_steps, 0);
  for (int step = 0; step < 40'000; ++step) advance_loss_scale(state, 4.0f, 0, 1e-6f);
  EXPECT_EQ(state.scale, kMostLossScale);
  for (const float sum : {INFINITY, NAN}) {
    const float scale = state.scale;
    EXPECT_EQ(advance_loss_scale(state, sum, 0, 1e-6f), 0);
    EXPECT_EQ(state.skip, 1);
    EXPECT_EQ(state.scale, scale / 2);
  }
  for (int step = 0; step < 60; ++step) advance_loss_scale(state, INFINITY, 0, 1e-6f);
  EXPECT_EQ(state.scale, 1);
  state = {};
  const float norm = 3 * kFirstLossScale;  // of the scaled gradient: 3 without the scale
  EXPECT_NEAR(advance_loss_scale(state, norm * norm, 1.5f, 1e-6f) * norm, 1.5f, 1e-5f);
  EXPECT_EQ(advance_loss_scale(state, norm * norm, 4.0f, 1e-6f), 1 / kFirstLossScale);
  EXPECT_EQ(state.skip, 0);
}

TEST(LossScaling, RecurrentLayersAreRefusedByName) {
  JobDevices job = cpu_job_devices(1, MathMode::fp16);
  RankContext rank{0, 1, *job.devices[0], *job.ops[0], *job.communicators[0]};
  try {
    Trainer trainer(rank, half_options(small_recurrent(LayerKind::gru), "single", 1));
    ADD_FAILURE() << "a recurrent layer in fp16";
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::usage);
    EXPECT_STREQ(error.what(), "layer 0 (gru) does not compute in fp16");
  }
}

}  // namespace
}  // namespace amdahl::test
