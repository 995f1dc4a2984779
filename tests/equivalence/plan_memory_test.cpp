// Modelled memory of plans beside what the fullest device allocates for a trainer.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/plan_memory.h"
#include "base/plan_rules.h"
#include "plan_job.h"
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
    const double measured = allocated_bytes_of(model, plan, 2);
    EXPECT_NEAR(static_cast<double>(plan_memory(plan, model).total()) / measured, 1.0, tolerance)
        << model.name << " under " << GetParam();
  }
}

/// A preset a few units wide, with two of its blocks.
ModelSpec narrow(ModelSpec model) {
  size_t blocks = 0;
  std::erase_if(model.layers,
                [&](const LayerSpec& layer) { return layer.kind == LayerKind::transformer_block && ++blocks > 2; });
  for (LayerSpec& layer : model.layers) {
    const bool is_image = layer.kind == LayerKind::conv || layer.kind == LayerKind::residual_block;
    layer.units = std::min<int64_t>(layer.units, is_image ? 16 : 64);
    if (layer.kind == LayerKind::transformer_block) layer.heads = 4;
    layer.vocabulary = std::min<int64_t>(layer.vocabulary, 500);
  }
  if (model.layers.front().vocabulary > 0) {  // of tokens
    model.input_shape = {32};
    model.input_width = 32;
    model.layers.front().max_steps = std::min<int64_t>(model.layers.front().max_steps, 32);
  }
  model.validate();
  return model;
}

class ZeroMemoryOf : public ::testing::TestWithParam<std::string> {};

/// Counted bytes of every preset, narrow, beside the model. Stages 2 and 3 divide the memory of large models: units of
/// a narrow one are small.
TEST_P(ZeroMemoryOf, EveryPresetIsWithinThreePercent) {
  int tested = 0;
  for (const ModelSpec& preset : model_presets()) {
    const ModelSpec model = narrow(preset);
    ParallelPlan plan = parse_plan(GetParam());
    plan.global_batch = 16;
    if (!plan_feasible(plan, model).ok) continue;
    ++tested;
    EXPECT_NEAR(static_cast<double>(plan_memory(plan, model).total()) / allocated_bytes_of(model, plan, 2), 1.0, 0.03)
        << preset.name << " under " << GetParam();
  }
  EXPECT_GT(tested, 3);
}

INSTANTIATE_TEST_SUITE_P(Plans, ZeroMemoryOf,
                         ::testing::Values("dp2,zero2,m2", "dp4,zero3", "dp2,zero3,m2,recompute=block", "dp2.tp2,zero3",
                                           "tp2,sp", "tp2,sp,recompute=block", "dp2.tp2,sp,recompute=selective,zero2"),
                         [](const auto& which) { return test_name(which.param); });

INSTANTIATE_TEST_SUITE_P(Plans, PlanMemoryOf,
                         ::testing::Values("dp1", "dp1,m4", "dp2", "dp2,zero1", "dp2.tp2,zero3", "dp2.pp2,m2,zero2",
                                           "dp2.pp2,m2,zero3", "dp2.pp2,m4,zb-h1,zero2", "dp2.pp2,m4,zb-h1,zero3",
                                           "dp2.pp2,m4,zb-v,zero3", "dp2,compress=int8", "dp4,compress=int8",
                                           "dp1,shards12", "dp2,shards12", "dp3,shards4", "dp2,compress=topk", "tp2",
                                           "pp2,m4", "pp2,gpipe,m4", "pp2,zb-h1,m4", "pp2,zb-v,m4",
                                           "pp2,interleaved,m4", "tp2.pp2,m2", "dp2.pp2,m2", "pp2,m4,recompute=block",
                                           "tp2,recompute=selective", "dp1,recompute=block"),
                         [](const auto& which) { return test_name(which.param); });

// Presets whose trainer takes up to 5 GB, so that larger ones are left out; one row of each is enough. A step of the
// transformers takes seconds, and its scratch memory is below 1 %.
TEST(PlanMemory, OfLargePresetsIsWithinThreePercent) {
  for (const char* preset : {"gpt2", "bert-base", "resnet18", "resnet34"}) {
    const ModelSpec model = find_model_preset(preset);
    ParallelPlan plan = parse_plan("dp1");
    plan.global_batch = 1;
    EXPECT_NEAR(static_cast<double>(plan_memory(plan, model).total()) /
                    allocated_bytes_of(model, plan, model.layers[0].kind == LayerKind::conv ? 2 : 0),
                1.0, 0.03)
        << preset;
  }
}

}  // namespace
}  // namespace amdahl::test
