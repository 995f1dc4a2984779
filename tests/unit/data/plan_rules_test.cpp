// Plans as text and back, their rules, the nearest plan that works, enumeration and modelled memory.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "errors.h"
#include "parallel/plan_memory.h"
#include "plan/plan_rules.h"
#include "plan/shards.h"
#include "sequence_models.h"

namespace amdahl::test {
namespace {

TEST(PlanText, NamesWhatDiffersFromTheDefaults) {
  const ParallelPlan plan = parse_plan("dp2.tp2.pp2,1f1b,m8,zero1,recompute=block");
  EXPECT_EQ(plan.mesh, (Mesh{2, 2, 2}));
  EXPECT_EQ(plan.accumulate, 8);
  EXPECT_EQ(plan.strategy, "zero1");
  EXPECT_EQ(plan.recompute, static_cast<int64_t>(Recompute::block));
  EXPECT_EQ(format_plan(plan), "dp2.tp2.pp2,m8,recompute=block,1f1b,zero1");
  EXPECT_TRUE(parse_plan("dp2.tp2,sp,zero3").sequence_parallel);
  EXPECT_EQ(format_plan(parse_plan("dp2.tp2,zero3,sp")), "dp2.tp2,sp,zero3");
  EXPECT_EQ(format_plan(parse_plan("dp1")), "dp1");
  EXPECT_EQ(format_plan(parse_plan("pp4")), "pp4,m8,1f1b");  // two micro-batches per stage rank
  EXPECT_EQ(parse_plan("tp2.dp3").mesh, (Mesh{3, 2, 1}));
  EXPECT_EQ(parse_plan("dp4").strategy, "ddp");
  EXPECT_EQ(parse_plan("dp4,no-overlap,bucket-mb=0.5").bucket_bytes, 1 << 19);
  EXPECT_FALSE(parse_plan("dp4,no-overlap").overlap);
}

/// Every field of the table at random, 2,000 times.
TEST(PlanText, LeadsBackToThePlan) {
  std::mt19937 random(7);
  const auto pick = [&](int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random);
  };
  for (int i = 0; i < 2000; ++i) {
    ParallelPlan plan;
    for (const PlanField& field : plan_fields()) {
      if (const auto* flag = std::get_if<bool PlanOptions::*>(&field.member))
        plan.** flag = pick(0, 1) == 1;
      else if (pick(0, 2) > 0)
        plan.*std::get<int64_t PlanOptions::*>(field.member) =
            pick(field.least, std::min<int64_t>(field.most, 1 << 26));
    }
    plan.mesh = {static_cast<int>(pick(1, 9)), static_cast<int>(pick(1, 4)), static_cast<int>(pick(1, 4))};
    plan.strategy = plan.mesh.dp == 1 ? "single" : pick(0, 1) == 1 ? "zero1" : "ddp";
    const std::string text = format_plan(plan);
    EXPECT_EQ(parse_plan(text), plan) << text;
    EXPECT_EQ(format_plan(parse_plan(text)), text);
  }
}

TEST(PlanText, NamesWhatIsWrong) {
  const std::vector<std::pair<const char*, const char*>> cases{{"", "an empty part"},
                                                               {"dp2,,m4", "an empty part"},
                                                               {"dp0", "dp is 0"},
                                                               {"dp2.xx3", "'xx3'"},
                                                               {"dp2.dp4", "dp is given twice"},
                                                               {"dp2,m0", "accumulate is '0'"},
                                                               {"dp2,m4,m8", "accumulate is given twice"},
                                                               {"pp2,2f2b", "'2f2b'"},
                                                               {"pp2,1f1b,gpipe", "schedule is given twice"},
                                                               {"dp2,recompute=blocks", "recompute is 'blocks'"},
                                                               {"dp2,ddp,zero1", "strategy is given twice"},
                                                               {"dp2,bucket-mb=x", "bucket-mb is 'x'"},
                                                               {"tp2,spx", "'spx'"},
                                                               {"dp2,zero4", "'zero4'"},
                                                               {"dp99999999", "dp is"}};
  for (const auto& [text, what] : cases) {
    const Error error = error_of([&, plan = text] { parse_plan(plan); });
    EXPECT_EQ(error.cause(), Cause::usage) << text;
    EXPECT_NE(std::string(error.what()).find(what), std::string::npos) << text << ": " << error.what();
    EXPECT_FALSE(error.remedy().empty()) << text;
  }
}

std::string refusal(const std::string& text, const ModelSpec& model, int64_t batch = 64) {
  ParallelPlan plan = parse_plan(text);
  plan.global_batch = batch;
  const Error error = error_of([&] { require_plan_feasible(plan, model); });
  return error.cause() == Cause::usage ? fmt::format("{} | {}", error.what(), error.remedy()) : "feasible";
}

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

TEST(PlanRules, RefuseWithTheNearestPlan) {
  const ModelSpec gpt2 = find_model_preset("gpt2"), medium = find_model_preset("medium");
  EXPECT_EQ(refusal("dp2.pp2,m8", gpt2), "feasible");
  const std::string blocks = refusal("pp5,m10", gpt2);  // 12 blocks
  EXPECT_TRUE(has(blocks, "12 blocks") && has(blocks, "pp5,m10,1f1b,split=flops")) << blocks;
  const std::string rounds = refusal("pp4,interleaved,m6", find_model_preset("gpt2-medium"));
  EXPECT_TRUE(has(rounds, "multiples of the 4 ranks") && has(rounds, "m4") | has(rounds, "m8")) << rounds;
  EXPECT_TRUE(has(refusal("dp2,gpipe", medium), "schedule=gpipe acts on pipeline stages, and pp is 1"));
  EXPECT_TRUE(has(refusal("pp2,recompute=block", medium), "recompute acts on transformer blocks"));
  const std::string zero = refusal("pp2,zero1", medium);
  EXPECT_TRUE(has(zero, "dp is 1") && has(zero, "pp2,m4,1f1b")) << zero;
  EXPECT_TRUE(has(refusal("dp2.pp2,dp", medium), "strategy dp does not work"));
  const std::string batch = refusal("dp4.pp2,m8", medium, 16);
  EXPECT_TRUE(has(batch, "batch 16 is smaller") && has(batch, "m4")) << batch;
  const std::string layers = refusal("pp8", medium);  // 4 layers
  EXPECT_TRUE(has(layers, "4 layers") && has(layers, "pp4")) << layers;
  EXPECT_TRUE(has(refusal("tp2", find_model_preset("resnet18")), "resnet18"));
  EXPECT_EQ(refusal("dp2.pp2,zb-h1,m4,zero3", gpt2), "feasible");
  EXPECT_TRUE(has(refusal("pp2,zero2", medium), "zero2 divides gradients among dp ranks, and dp is 1"));
  const std::string tokens = refusal("dp2,sp", gpt2);
  EXPECT_TRUE(has(tokens, "sp divides tokens among tp ranks") && has(tokens, "is dp2")) << tokens;
  EXPECT_TRUE(has(refusal("tp2,sp", medium), "'medium' has none"));
  EXPECT_EQ(refusal("dp2.tp2,sp,zero3", gpt2), "feasible");
  EXPECT_TRUE(has(refusal("tp3", find_model_preset("lstm")), "units of layer 0 cannot be divided"));
}

// Ranks divide the heads of keys and values and the hidden units too.
TEST(PlanRules, GroupedHeadsAndFreeWidthsAreDividedEvenly) {
  ModelSpec llama = small_llama();  // 4 heads, 2 of keys and values, 24 hidden units
  for (LayerSpec& layer : llama.layers)
    if (layer.vocabulary > 0) layer.vocabulary = 37;  // enough for 4 ranks
  EXPECT_EQ(refusal("tp2", llama), "feasible");
  const std::string keys = refusal("tp4", llama);
  EXPECT_TRUE(has(keys, "the 2 heads of keys and values of layer 1 cannot be divided among 4") && has(keys, "tp2"))
      << keys;
  for (LayerSpec& layer : llama.layers)
    if (layer.kind == LayerKind::transformer_block) layer.hidden = 25;
  const std::string hidden = refusal("tp2", llama);
  EXPECT_TRUE(has(hidden, "the 25 hidden units of layer 1 cannot be divided among 2")) << hidden;
}

// The rows of gate and values are divided each, as those of q, k and v are.
TEST(PlanRules, ShardsOfAGatedBlock) {
  const ModelSpec llama = small_llama();
  const auto shards = parameter_shards(llama, 1, TensorRole::divided, {2, 1});
  const auto parameters = parameters_of(llama.layers[1], llama.layer_input_shape(1));
  std::map<std::string, std::string> held;
  for (size_t i = 0; i < shards.size(); ++i) {
    std::string& text = held[parameters[i].name];
    text = std::to_string(shards[i].axis);
    for (const RowRange& part : shards[i].parts)
      text += " " + std::to_string(part.begin) + "-" + std::to_string(part.end);
  }
  const std::map<std::string, std::string> wanted{{"norm1.weight", "-1"},
                                                  {"attention.qkv.weight", "0 16-32 40-48 56-64"},
                                                  {"attention.out.weight", "1 16-32"},
                                                  {"norm2.weight", "-1"},
                                                  {"mlp.up.weight", "0 12-24 36-48"},
                                                  {"mlp.down.weight", "1 12-24"}};
  EXPECT_EQ(held, wanted);
}

TEST(PlanRules, EnumerateWhatIsFeasible) {
  for (const SmallModel& small : small_sequence_models())
    for (const int devices : {1, 2, 3, 4, 6, 8}) {
      PlanQuery query{.num_devices = devices, .global_batch = 64, .all_schedules = true};
      std::vector<ParallelPlan> plans = enumerate_plans(small.spec, query);
      EXPECT_FALSE(plans.empty());
      std::vector<std::string> texts;
      for (const ParallelPlan& plan : plans) {
        EXPECT_EQ(plan.num_devices(), devices);
        EXPECT_TRUE(plan_feasible(plan, small.spec).ok);
        texts.push_back(format_plan(plan));
      }
      std::sort(texts.begin(), texts.end());
      EXPECT_EQ(std::adjacent_find(texts.begin(), texts.end()), texts.end());
    }
}

TEST(PlanMemoryModel, FallsWithTheParts) {
  const ModelSpec gpt2 = find_model_preset("gpt2");
  const auto memory = [&](const char* text) {
    ParallelPlan plan = parse_plan(text);
    plan.global_batch = 32;
    return plan_memory(plan, gpt2);
  };
  const PlanMemory one = memory("dp1");
  EXPECT_NEAR(static_cast<double>(one.parameters), 4.0 * static_cast<double>(gpt2.num_parameters()), 1e-3 * 4 * 124e6);
  EXPECT_EQ(memory("dp4").parameters, one.parameters);
  EXPECT_EQ(memory("dp4,zero1").optimizer, one.optimizer / 4);
  EXPECT_LT(memory("dp4,zero2").gradients, one.gradients * 3 / 4);  // a quarter, and the table of tokens
  EXPECT_EQ(memory("dp4,zero2").parameters, one.parameters);
  EXPECT_LT(memory("dp4,zero3").parameters, one.parameters * 3 / 4);
  EXPECT_LT(memory("tp4,sp").activations, memory("tp4").activations);
  EXPECT_LT(memory("pp4").parameters, one.parameters / 2);
  EXPECT_LT(memory("dp4").activations, one.activations / 3);
  EXPECT_LT(memory("dp1,recompute=block").activations, one.activations * 2 / 3);  // the rest is logits
  EXPECT_GT(memory("pp4,gpipe,m16").activations, memory("pp4,1f1b,m16").activations);
}

}  // namespace
}  // namespace amdahl::test
