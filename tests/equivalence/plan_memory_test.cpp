// Modelled memory of plans beside what the fullest device allocates for a trainer.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "parallel/plan_memory.h"
#include "plan/plan_rules.h"
#include "plan_job.h"
#include "random_models.h"
#include "random_plans.h"
#include "sequence_models.h"

namespace amdahl::test {
namespace {

/// A preset a few units wide, with two of its transformer blocks, or five with bottlenecks: two sizes of images.
ModelSpec narrow(ModelSpec model) {
  size_t blocks = 0;
  std::erase_if(model.layers, [&](const LayerSpec& layer) {
    return (layer.kind == LayerKind::transformer_block && ++blocks > 2) || (layer.bottleneck > 0 && ++blocks > 5);
  });
  for (LayerSpec& layer : model.layers) {
    const bool is_image = layer.kind == LayerKind::conv || layer.kind == LayerKind::residual_block;
    layer.units = std::min<int64_t>(layer.units, is_image ? 16 : 64);
    layer.bottleneck = std::min<int64_t>(layer.bottleneck, 8);
    if (layer.kind == LayerKind::transformer_block) layer.heads = 4;
    layer.kv_heads = std::min<int64_t>(layer.kv_heads, 2);
    layer.head_dim = std::min<int64_t>(layer.head_dim, 16);
    layer.hidden = std::min<int64_t>(layer.hidden, 176);
    layer.vocabulary = std::min<int64_t>(layer.vocabulary, 500);
  }
  if (model.input_shape.size() == 3 && model.input_shape[0] > 48) {
    model.input_shape = {48, 48, 3};
    model.input_width = 48 * 48 * 3;
  }
  if (model.layers.front().vocabulary > 0) {  // of tokens
    model.input_shape = {32};
    model.input_width = 32;
    model.layers.front().max_steps = std::min<int64_t>(model.layers.front().max_steps, 32);
  }
  model.validate();
  return model;
}

/// Counted bytes of every preset, narrow, beside the model; and of one whose gradients are several buckets.
void expect_counted_bytes(const std::string& text, int64_t rows) {
  int tested = 0;
  ParallelPlan plan = parse_plan(text);
  plan.global_batch = rows;
  std::vector<ModelSpec> models;
  for (const ModelSpec& preset : model_presets()) models.push_back(narrow(preset));
  models.push_back(narrow(find_model_preset("gpt2")));
  models.back().layers.back().chunk_rows = 48;
  if (plan.compress > 0 || plan.virtual_shards > 0) models.push_back(find_model_preset("large-6.9m"));
  for (const ModelSpec& model : models) {
    if (!plan_feasible(plan, model).ok) continue;
    ++tested;
    const double limit = model.input_shape.size() == 3 ? 0.02 : 0.01;  // oneDNN chooses formats of filters
    EXPECT_NEAR(static_cast<double>(plan_memory(plan, model).total()) / allocated_bytes_of(model, plan, 2), 1, limit)
        << model.name << " under " << text;
  }
  EXPECT_GT(tested, 3);
}

class PlanMemoryOf : public ::testing::TestWithParam<std::string> {};
TEST_P(PlanMemoryOf, EveryPresetIsWithinAPercent) { expect_counted_bytes(GetParam(), 32); }

// Stages 2 and 3 divide the memory of large models: units of a narrow one are small.
class ZeroMemoryOf : public ::testing::TestWithParam<std::string> {};
TEST_P(ZeroMemoryOf, EveryPresetIsWithinAPercent) { expect_counted_bytes(GetParam(), 16); }

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

/// Llama 3's vocabulary, of whose logits a GiB is in memory at once, and two chunks in a step.
TEST(PlanMemory, OfALargeVocabulary) {
  ModelSpec model = small_llama();
  model.layers.front().vocabulary = model.layers.back().vocabulary = 128'256;
  for (const char* text : {"dp1", "tp2"}) {
    ParallelPlan plan = parse_plan(text);
    plan.global_batch = plan.mesh.tp * 240;
    EXPECT_NEAR(static_cast<double>(plan_memory(plan, model).total()) / allocated_bytes_of(model, plan, 1), 1, 0.03)
        << text;
  }
}

/// Models and plans that nobody chose; PLAN_SEED in the environment draws others.
TEST(PlanMemory, OfModelsAndPlansDrawnAtRandom) {
  ModelLimits limits;
  limits.most_parameters = 1e6, limits.most_flops = 1e9, limits.most_steps = 64, limits.most_batch = 256;
  limits.most_devices = 4;
  constexpr uint64_t kModels = 40;
  std::map<std::string, int> under;
  for (uint64_t seed = plan_seed(); seed < plan_seed() + kModels; ++seed) {
    const RandomModel drawn = draw_model(seed, limits);
    for (const ParallelPlan& plan : drawn.plans) {
      ++under[std::string(drawn.kind)];
      // oneDNN pads filters to channels of a vector: kilobytes, which count in an image model of a few channels.
      const double counted = allocated_bytes_of(drawn.spec, plan, 2),
                   padding = drawn.kind == "convolutional" ? 65536 : 0;
      EXPECT_NEAR(static_cast<double>(plan_memory(plan, drawn.spec).total()), counted, 0.03 * counted + padding)
          << format_plan(plan) << " (PLAN_SEED=" << seed << "): " << line_of(drawn);
    }
  }
  for (const auto& [kind, count] : under) EXPECT_GT(count, 4) << kind;
  EXPECT_EQ(under.size(), 5u);
}

}  // namespace
}  // namespace amdahl::test
