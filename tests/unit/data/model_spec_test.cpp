#include "amdahl/plan.h"

#include <gtest/gtest.h>

#include <map>

#include "plan/layer_kinds.h"

namespace amdahl {
namespace {

TEST(ModelSpec, CountsTheStudysFourModels) {
  EXPECT_EQ(find_model_preset("medium").num_parameters(), 54'403);
  EXPECT_EQ(find_model_preset("large").num_parameters(), 2'021'379);
  EXPECT_EQ(find_model_preset("medium-258k").num_parameters(), 258'432);
  EXPECT_EQ(find_model_preset("large-6.9m").num_parameters(), 6'885'376);
}

// Published counts, and PyTorch's for the recurrent models (both biases).
TEST(ModelSpec, CountsTheModelsOfTheField) {
  EXPECT_EQ(find_model_preset("lstm").num_parameters(), 316'163);
  EXPECT_EQ(find_model_preset("gru").num_parameters(), 237'315);
  EXPECT_EQ(find_model_preset("transformer").num_parameters(), 1'808'643);
  EXPECT_EQ(find_model_preset("gpt2").num_parameters(), 124'439'808);
  EXPECT_EQ(find_model_preset("gpt2-medium").num_parameters(), 354'823'168);
  EXPECT_EQ(find_model_preset("gpt2-large").num_parameters(), 774'030'080);
  EXPECT_EQ(find_model_preset("gpt2-xl").num_parameters(), 1'557'611'200);
  EXPECT_EQ(find_model_preset("bert-base").num_parameters(), 109'482'240);
  EXPECT_EQ(find_model_preset("bert-large").num_parameters(), 335'141'888);
  EXPECT_EQ(find_model_preset("resnet18").num_parameters(), 11'173'962);
  EXPECT_EQ(find_model_preset("resnet34").num_parameters(), 21'282'122);
  EXPECT_EQ(find_model_preset("resnet50").num_parameters(), 25'557'032);
  EXPECT_EQ(find_model_preset("resnet152").num_parameters(), 60'192'808);
}

// As the publishers count them: a tied head once.
TEST(ModelSpec, CountsThePublishedDecoders) {
  const std::map<std::string, int64_t> published{
      {"llama3.2-1b", 1'235'814'400}, {"llama3.2-3b", 3'212'749'824},  {"llama3.1-8b", 8'030'261'248},
      {"qwen2.5-0.5b", 494'032'768},  {"qwen2.5-1.5b", 1'543'714'304}, {"qwen2.5-7b", 7'615'616'512},
      {"qwen3-0.6b", 596'049'920},    {"qwen3-1.7b", 1'720'574'976},   {"qwen3-8b", 8'190'735'360},
      {"mistral-7b", 7'241'732'096},  {"smollm2-135m", 134'515'008}};
  size_t found = 0;
  for (const ModelSpec& preset : model_presets()) {
    const LayerSpec& block = preset.layers[1];
    if (block.kind != LayerKind::transformer_block || block.rope_theta == 0) continue;
    ASSERT_TRUE(published.contains(preset.name)) << preset.name;
    EXPECT_EQ(preset.num_parameters(), published.at(preset.name)) << preset.name;
    EXPECT_EQ(preset.input_shape, std::vector<int64_t>{4096}) << preset.name;
    ++found;
  }
  EXPECT_EQ(found, published.size());
}

// FLOP of GPT-2 per token, forward and backward: 6 per parameter of a GEMM (the padded classifier included, embeddings
// not), and 12 x blocks x steps x units for attention.
TEST(ModelSpec, CountsTheOperationsOfGpt2) {
  const double blocks = 12, units = 768, steps = 1024, padded = 50'304;
  const double per_token = 6 * (blocks * 12 * units * units + padded * units) + 12 * blocks * steps * units;
  EXPECT_DOUBLE_EQ(step_flops(find_model_preset("gpt2"), 3), 3 * steps * per_token);
}

TEST(ModelSpec, ChunksOfLogitsAreEqualAndHaveAtMostAGibibyte) {
  LayerSpec head;
  head.kind = LayerKind::token_head;
  EXPECT_EQ(head_chunk(head, 1, 4), 1);
  EXPECT_EQ(head_chunk(head, 8192, int64_t{128} << 10), 8192);  // a GiB
  EXPECT_EQ(head_chunk(head, 8193, int64_t{128} << 10), 4224);
  EXPECT_EQ(head_chunk(head, 32'768, 50'304 * 2), 8192);  // gpt2 at batch 32, bf16
  EXPECT_EQ(head_chunk(head, 8192, 128'256 * 2), 4096);   // Llama 3's vocabulary
  EXPECT_EQ(head_chunk(head, 100'000, int64_t{4} << 20), 1024);
  for (const int64_t tokens : {10'000, 12'345, 100'000, 1'000'000})
    EXPECT_LE(head_chunk(head, tokens, 128'256 * 4) * 128'256 * 4, int64_t{1} << 30) << tokens;
  head.chunk_rows = 100;
  EXPECT_EQ(head_chunk(head, 8192, 4), 100);
  EXPECT_EQ(head_chunk(head, 64, 4), 64);
}

TEST(ModelSpec, ShapesChain) {
  const ModelSpec gpt2 = find_model_preset("gpt2");
  EXPECT_EQ(gpt2.vocabulary(), 50'257);
  EXPECT_EQ(gpt2.output_width(), 50'257);
  EXPECT_EQ(gpt2.labels_per_row(), 1024);
  EXPECT_EQ(gpt2.target_width(), 1024);
  EXPECT_EQ(gpt2.layer_input_shape(1), (std::vector<int64_t>{1024, 768}));
  const ModelSpec resnet = find_model_preset("resnet18");
  EXPECT_EQ(resnet.layer_output_shape(8), (std::vector<int64_t>{4, 4, 512}));
  EXPECT_EQ(resnet.target_width(), 1);
  EXPECT_EQ(find_model_preset("lstm").target_width(), 3);
  EXPECT_FALSE(gpt2.is_mlp());
  EXPECT_TRUE(find_model_preset("medium").is_mlp());
}

std::string model_refusal(const ModelSpec& model) {
  try {
    model.validate();
    return "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::usage);
    EXPECT_FALSE(error.remedy().empty());
    return error.what();
  }
}

TEST(ModelSpec, DocumentsNeedCausalBlocksAndATokenOfTheVocabulary) {
  ModelSpec model = find_model_preset("gpt2");
  model.layers.front().end_token = 50'256;
  EXPECT_EQ(model_refusal(model), "accepted");
  model.layers.front().end_token = 50'257;
  EXPECT_EQ(model_refusal(model), "model 'gpt2': its end_token is 50257 in a vocabulary of 50257");
  model.layers.front().end_token = 0;
  model.layers[3].causal = false;
  EXPECT_EQ(model_refusal(model),
            "model 'gpt2': end_token 0 divides rows into documents, and layer 3 (transformer_block) does not keep to "
            "them");
  model = find_model_preset("bert-base");
  model.layers.front().end_token = 102;
  EXPECT_EQ(model_refusal(model),
            "model 'bert-base': end_token 102 divides rows into documents, and layer 2 (transformer_block) does not "
            "keep to them");
}

TEST(ModelSpec, SaysWhereShapesDoNotChain) {
  ModelSpec model = find_model_preset("transformer");
  model.layers[2].units = 96;
  EXPECT_EQ(model_refusal(model),
            "model 'transformer': layer 2 (transformer_block): its input has 192 features, and it has 96 units");
  model = find_model_preset("transformer");
  model.layers[1].heads = 5;
  EXPECT_EQ(model_refusal(model),
            "model 'transformer': layer 1 (transformer_block): its 192 units cannot be divided among 5 heads");
  model = find_model_preset("gpt2");
  model.input_shape = {2048};
  model.input_width = 2048;
  EXPECT_EQ(model_refusal(model),
            "model 'gpt2': layer 0 (embedding): its input has 2048 steps, and it has positions for 1024");
  model = find_model_preset("gpt2");
  model.layers[0].vocabulary = 50'000;
  EXPECT_EQ(model_refusal(model), "model 'gpt2': its token_head is tied to an embedding that it does not have");
  model = find_model_preset("lstm");
  model.input_width = 50;
  EXPECT_EQ(model_refusal(model), "model 'lstm': input_width is 50, and the input shape [96, 50] has 4800 features");
  model = find_model_preset("lstm");
  std::swap(model.layers[0], model.layers[1]);
  EXPECT_EQ(model_refusal(model), "model 'lstm': layer 1 (lstm): its input is [3], not [steps, features]");
  model = find_model_preset("resnet18");
  model.layers.pop_back();
  EXPECT_EQ(model_refusal(model), "model 'resnet18': its last layer is of the kind average_pool");
  model = find_model_preset("gpt2");
  model.loss = LossKind::mse;
  EXPECT_EQ(model_refusal(model), "model 'gpt2': a token_head needs loss softmax_cross_entropy");
}

/// Two tokens of 32 units in 4 heads, as Llama's.
ModelSpec small_decoder() {
  LayerSpec block{.units = 32, .activation = Activation::none, .kind = LayerKind::transformer_block, .heads = 4};
  block.causal = true, block.norm = NormKind::rms, block.kv_heads = 2, block.head_dim = 6, block.hidden = 20;
  block.mlp = MlpKind::swiglu, block.qkv_bias = block.out_bias = block.mlp_bias = false;
  block.qk_norm = true, block.rope_theta = 1e4;
  return {"small", 64, {block, {.units = 1, .activation = Activation::none}}, LossKind::mse, {2, 32}};
}

TEST(ModelSpec, CountsTheParametersAndOperationsOfADecoderBlock) {
  const ModelSpec model = small_decoder();
  model.validate();
  std::string names;
  for (const ParameterSpec& parameter : parameters_of(model.layers[0], {2, 32}))
    names += parameter.name + shape_text(parameter.shape) + " ";
  EXPECT_EQ(names,
            "norm1.weight[32] attention.qkv.weight[48, 32] attention.q_norm.weight[6] attention.k_norm.weight[6] "
            "attention.out.weight[32, 24] norm2.weight[32] mlp.up.weight[40, 32] mlp.down.weight[32, 20] ");
  // Per step: all weights, and scores and weighted values of 2 steps and 24 features.
  EXPECT_DOUBLE_EQ(row_of(LayerKind::transformer_block).forward_flops(model.layers[0], {2, 32}),
                   2 * 2.0 * (48 * 32 + 32 * 24 + 40 * 32 + 32 * 20) + 2 * 2.0 * 2 * 2 * 24);
}

TEST(ModelSpec, SaysWhatADecoderBlockCannotBe) {
  const auto refusal = [](auto change) {
    ModelSpec model = small_decoder();
    change(model.layers[0]);
    const std::string text = model_refusal(model), prefix = "model 'small': layer 0 (transformer_block): ";
    return text.substr(0, prefix.size()) == prefix ? text.substr(prefix.size()) : text;
  };
  EXPECT_EQ(refusal([](LayerSpec& l) { l.kv_heads = 3; }),
            "its 4 heads cannot share 3 heads of keys and values evenly");
  EXPECT_EQ(refusal([](LayerSpec& l) { l.head_dim = 5; }), "its head_dim is 5, and rotary positions need an even one");
  EXPECT_EQ(refusal([](LayerSpec& l) { l.head_dim = 5, l.rope_theta = 0; }), "accepted");
  EXPECT_EQ(refusal([](LayerSpec& l) { l.head_dim = 1 << 23; }),
            "its 4 heads of 8388608 features have more than 16,777,216 together");
  EXPECT_EQ(refusal([](LayerSpec& l) { l.head_dim = 0, l.heads = 5, l.kv_heads = 0; }),
            "its 32 units cannot be divided among 5 heads");
  EXPECT_EQ(refusal([](LayerSpec& l) { l.window = 8, l.causal = false; }), "it has a window of 8 and is not causal");
  EXPECT_EQ(refusal([](LayerSpec& l) { l.exact_gelu = true, l.mlp = MlpKind::swiglu; }),
            "it has exact_gelu, and its mlp swiglu has no GELU");
  EXPECT_EQ(refusal([](LayerSpec& l) { l.exact_gelu = true, l.mlp = MlpKind::geglu; }), "accepted");
  EXPECT_EQ(refusal([](LayerSpec& l) { l.epsilon = 0; }), "its epsilon is 0");
  EXPECT_EQ(refusal([](LayerSpec& l) { l.rope_theta = 0.5; }), "its rope_theta is 0.5, not above 1");
  EXPECT_EQ(refusal([](LayerSpec& l) { l.rope_theta = 0, l.rope_scaling = RopeScaling::linear; }),
            "it has a rope_scaling and no rope_theta");
  EXPECT_EQ(refusal([](LayerSpec& l) { l.rope_factor = 8; }), "it has rope_factor 8 and no rope_scaling");
  EXPECT_EQ(refusal([](LayerSpec& l) { l.rope_scaling = RopeScaling::linear, l.rope_factor = 0.5; }),
            "its rope_factor is 0.5, not at least 1");
  EXPECT_EQ(refusal([](LayerSpec& l) { l.rope_scaling = RopeScaling::linear, l.rope_low = 1; }),
            "it has rope_original_steps, rope_low or rope_high, which rope_scaling llama3 and yarn use");
  const auto llama3 = [](LayerSpec& l) {
    l.rope_scaling = RopeScaling::llama3, l.rope_factor = 8, l.rope_original_steps = 8192, l.rope_low = 1;
    l.rope_high = 4;
  };
  EXPECT_EQ(refusal(llama3), "accepted");
  EXPECT_EQ(refusal([&](LayerSpec& l) { llama3(l), l.rope_original_steps = 0; }), "its rope_original_steps is 0");
  EXPECT_EQ(refusal([&](LayerSpec& l) { llama3(l), l.rope_low = 4; }),
            "its rope_low is 4 and its rope_high 4, not above it and above 0");
  EXPECT_EQ(refusal([&](LayerSpec& l) { llama3(l), l.rope_attention = 1.2; }),
            "it has rope_attention, which rope_scaling yarn uses");
  EXPECT_EQ(refusal([&](LayerSpec& l) { llama3(l), l.rope_scaling = RopeScaling::yarn, l.rope_attention = -1; }),
            "its rope_attention is -1");
}

TEST(ModelSpec, NamesTheNearestPreset) {
  try {
    find_model_preset("medum");
    FAIL() << "an unknown preset was accepted";
  } catch (const Error& e) {
    EXPECT_EQ(e.cause(), Cause::usage);
    EXPECT_NE(e.remedy().find("medium"), std::string::npos);
  }
}

TEST(ModelSpec, RefusesWhatCannotBeTrained) {
  ModelSpec model = find_model_preset("medium");
  model.layers[1].units = 0;
  EXPECT_THROW(model.validate(), Error);
  model = find_model_preset("medium");
  model.layers[0].dropout = 1.0;
  EXPECT_THROW(model.validate(), Error);
  model = find_model_preset("medium");
  model.layers[0].activation = Activation::none;
  EXPECT_THROW(model.validate(), Error);
  for (const ModelSpec& preset : model_presets()) EXPECT_NO_THROW(preset.validate());
}

}  // namespace
}  // namespace amdahl
