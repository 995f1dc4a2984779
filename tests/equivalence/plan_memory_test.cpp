// Modelled memory of plans beside what the fullest device allocates for a trainer.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/plan_rules.h"
#include "sequence_models.h"

namespace amdahl::test {
namespace {

/// As preset "gpt2": 32 tokens of a vocabulary of 500, 64 units in 4 heads.
ModelSpec memory_gpt() {
  ModelSpec model = small_gpt(true);
  model.input_shape = {32};
  model.input_width = 32;
  for (LayerSpec& layer : model.layers) {
    if (layer.kind == LayerKind::transformer_block) layer.units = 64, layer.heads = 4;
    if (layer.kind == LayerKind::embedding) layer.units = 64, layer.max_steps = 32;
    if (layer.vocabulary > 0) layer.vocabulary = 500;
  }
  return model;
}

double allocated_bytes(const ModelSpec& model, const ParallelPlan& plan) {
  TrainerOptions options;
  options.model = model;
  options.plan = plan;
  const int world = plan.num_devices();
  JobDevices job = cpu_job_devices(world);
  std::vector<double> bytes(static_cast<size_t>(world));
  run_rank_threads(
      world,
      [&](int index) {
        const auto r = static_cast<size_t>(index);
        job.devices[r]->bind_thread();
        RankContext rank{index, world, *job.devices[r], *job.ops[r], *job.communicators[r]};
        const size_t before = job.devices[r]->allocated_bytes();
        Trainer trainer(rank, options);
        bytes[r] = static_cast<double>(job.devices[r]->allocated_bytes() - before);
      },
      [&](const Error& cause) {
        for (auto& communicator : job.communicators) communicator->abort(cause);
      });
  return *std::max_element(bytes.begin(), bytes.end());
}

class PlanMemoryOf : public ::testing::TestWithParam<std::string> {};

TEST_P(PlanMemoryOf, IsWithinThreePercent) {
  std::vector<ModelSpec> models{memory_gpt()};
  for (const char* preset : {"medium", "large", "medium-258k", "large-6.9m", "lstm", "gru", "transformer"})
    models.push_back(find_model_preset(preset));
  for (const ModelSpec& model : models) {
    ParallelPlan plan = parse_plan(GetParam());
    plan.global_batch = 32;
    if (!plan_feasible(plan, model).ok) continue;
    // Two stages on a rank may hold most at different times: the model takes their sum at one time.
    const double tolerance = num_stages(plan) > plan.mesh.pp ? 0.15 : 0.03;
    const double measured = allocated_bytes(model, plan);
    EXPECT_NEAR(static_cast<double>(plan_memory(plan, model).total()) / measured, 1.0, tolerance)
        << model.name << " under " << GetParam();
  }
}

INSTANTIATE_TEST_SUITE_P(Plans, PlanMemoryOf,
                         ::testing::Values("dp1", "dp1,m4", "dp2", "dp2,zero1", "tp2", "pp2,m4", "pp2,gpipe,m4",
                                           "pp2,zb-h1,m4", "pp2,zb-v,m4", "pp2,interleaved,m4", "tp2.pp2,m2",
                                           "dp2.pp2,m2", "pp2,m4,recompute=block", "tp2,recompute=selective",
                                           "dp1,recompute=block"),
                         [](const auto& which) {
                           std::string name = which.param;
                           std::replace_if(
                               name.begin(), name.end(),
                               [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
                           return name;
                         });

// Presets whose trainer takes up to 5 GB, so that larger ones are left out; one row of each is enough.
TEST(PlanMemory, OfLargePresetsIsWithinThreePercent) {
  for (const char* preset : {"gpt2", "bert-base", "resnet18", "resnet34"}) {
    const ModelSpec model = find_model_preset(preset);
    ParallelPlan plan = parse_plan("dp1");
    plan.global_batch = 1;
    EXPECT_NEAR(static_cast<double>(plan_memory(plan, model).total()) / allocated_bytes(model, plan), 1.0, 0.03)
        << preset;
  }
}

}  // namespace
}  // namespace amdahl::test
