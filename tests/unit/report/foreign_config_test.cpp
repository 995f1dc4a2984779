// config.json of Hugging Face as --model: what each family's fields mean, and what is refused.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "spec/json.h"

namespace amdahl {
namespace {

/// A configuration with the fields changed; an empty value takes a field away.
std::string config_text(std::map<std::string, std::string> fields, const std::map<std::string, std::string>& changes) {
  for (const auto& [name, value] : changes) fields[name] = value;
  std::string text = "{";
  for (const auto& [name, value] : fields)
    if (!value.empty()) text += fmt::format("{}\"{}\": {}", text.size() > 1 ? ", " : "", name, value);
  return text + "}";
}

const std::map<std::string, std::string> kGated{{"hidden_size", "32"},      {"intermediate_size", "48"},
                                                {"num_hidden_layers", "3"}, {"num_attention_heads", "4"},
                                                {"vocab_size", "100"},      {"max_position_embeddings", "64"}};

ModelSpec gated(const std::string& type, const std::map<std::string, std::string>& changes = {}) {
  std::map<std::string, std::string> all = changes;
  all["model_type"] = '"' + type + '"';
  return model_from_json(config_text(kGated, all), "models/tiny/config.json");
}
LayerSpec block_of(const std::string& type, const std::map<std::string, std::string>& changes = {}) {
  return gated(type, changes).layers[1];
}
std::string refusal(const std::string& type, const std::map<std::string, std::string>& changes) {
  try {
    gated(type, changes);
    return "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::usage);
    EXPECT_FALSE(error.remedy().empty());
    const std::string text = error.what(), prefix = "models/tiny/config.json: ";
    EXPECT_EQ(text.substr(0, prefix.size()), prefix);
    return text.substr(prefix.size());
  }
}

TEST(ForeignConfig, ReadsLlama) {
  const ModelSpec model = gated("llama", {{"num_key_value_heads", "2"}, {"rms_norm_eps", "1e-05"}});
  EXPECT_EQ(model.name, "tiny");
  ASSERT_EQ(model.layers.size(), 6u);
  const LayerSpec& block = model.layers[1];
  EXPECT_EQ(block.kv_heads, 2);
  EXPECT_EQ(block.hidden, 48);
  EXPECT_EQ(block.epsilon, 1e-5);
  EXPECT_EQ(block.rope_theta, 1e4);
  EXPECT_EQ(block.norm, NormKind::rms);
  EXPECT_EQ(block.mlp, MlpKind::swiglu);
  EXPECT_TRUE(block.causal && !block.qkv_bias && !block.out_bias && !block.mlp_bias && !block.qk_norm);
  EXPECT_EQ(model.layers[3], block);
  EXPECT_EQ(model.layers[4].norm, NormKind::rms);
  EXPECT_EQ(model.layers[4].epsilon, 1e-5);
  EXPECT_FALSE(model.layers[0].positions);
  EXPECT_FALSE(model.layers[5].tied);
  EXPECT_EQ(model.input_shape, std::vector<int64_t>{64});
  EXPECT_EQ(gated("llama", {{"max_position_embeddings", "131072"}}).input_shape, std::vector<int64_t>{4096});
  EXPECT_TRUE(gated("llama", {{"tie_word_embeddings", "true"}}).layers[5].tied);
  EXPECT_EQ(block_of("llama").kv_heads, 4);
  EXPECT_EQ(block_of("llama", {{"head_dim", "16"}}).head_dim, 16);
  const LayerSpec biased = block_of("llama", {{"attention_bias", "true"}, {"mlp_bias", "true"}});
  EXPECT_TRUE(biased.qkv_bias && biased.out_bias && biased.mlp_bias);
  EXPECT_EQ(block_of("llama", {{"hidden_act", "\"gelu_pytorch_tanh\""}}).mlp, MlpKind::geglu);
  const LayerSpec exact = block_of("llama", {{"hidden_act", "\"gelu\""}});
  EXPECT_TRUE(exact.mlp == MlpKind::geglu && exact.exact_gelu);
}

// The published configuration makes the preset.
TEST(ForeignConfig, MakesThePresetOfLlama) {
  const std::string rope = R"({"factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
                               "original_max_position_embeddings": 8192, "rope_type": "llama3"})";
  std::map<std::string, std::string> fields{{"hidden_size", "2048"},         {"intermediate_size", "8192"},
                                            {"num_hidden_layers", "16"},     {"num_attention_heads", "32"},
                                            {"num_key_value_heads", "8"},    {"head_dim", "64"},
                                            {"vocab_size", "128256"},        {"max_position_embeddings", "131072"},
                                            {"tie_word_embeddings", "true"}, {"rms_norm_eps", "1e-5"},
                                            {"rope_theta", "500000.0"},      {"rope_scaling", rope}};
  const ModelSpec read = gated("llama", fields), preset = find_model_preset("llama3.2-1b");
  EXPECT_EQ(read.layers, preset.layers);
  fields["rope_theta"] = fields["rope_scaling"] = "";
  fields["rope_parameters"] = R"({"rope_theta": 500000.0, )" + rope.substr(1);
  EXPECT_EQ(gated("llama", fields).layers, preset.layers);
}

TEST(ForeignConfig, ReadsYarnAndLinearScaling) {
  const LayerSpec linear = block_of("llama", {{"rope_scaling", R"({"type": "linear", "factor": 4})"}});
  EXPECT_EQ(linear.rope_scaling, RopeScaling::linear);
  EXPECT_EQ(linear.rope_factor, 4);
  const LayerSpec yarn =
      block_of("qwen2", {{"num_key_value_heads", "2"}, {"rope_scaling", R"({"rope_type": "yarn", "factor": 4})"}});
  EXPECT_EQ(yarn.rope_scaling, RopeScaling::yarn);
  EXPECT_EQ(yarn.rope_original_steps, 64);
  EXPECT_EQ(yarn.rope_low, 1);
  EXPECT_EQ(yarn.rope_high, 32);
  EXPECT_EQ(yarn.rope_attention, 0);
  EXPECT_EQ(block_of("llama", {{"rope_scaling", "null"}}).rope_scaling, RopeScaling::none);
  EXPECT_EQ(block_of("llama", {{"rope_scaling", R"({"rope_type": "default"})"}}).rope_scaling, RopeScaling::none);
}

TEST(ForeignConfig, ReadsQwenAndMistral) {
  const LayerSpec qwen2 = block_of("qwen2", {{"num_key_value_heads", "2"}, {"sliding_window", "8"}});
  EXPECT_TRUE(qwen2.qkv_bias && !qwen2.out_bias && !qwen2.mlp_bias && !qwen2.qk_norm);
  EXPECT_EQ(qwen2.window, 0);
  const LayerSpec qwen3 = block_of("qwen3", {{"num_key_value_heads", "2"}});
  EXPECT_TRUE(qwen3.qk_norm && !qwen3.qkv_bias);
  EXPECT_EQ(qwen3.head_dim, 128);
  EXPECT_EQ(block_of("qwen3", {{"num_key_value_heads", "null"}, {"head_dim", "null"}}).head_dim, 0);
  const LayerSpec mistral = block_of("mistral", {{"num_key_value_heads", "2"}});
  EXPECT_EQ(mistral.window, 4096);
  EXPECT_EQ(block_of("mistral", {{"num_key_value_heads", "2"}, {"sliding_window", "16"}}).window, 16);
  EXPECT_EQ(block_of("mistral", {{"num_key_value_heads", "2"}, {"sliding_window", "null"}}).window, 0);
  const std::map<std::string, std::string> windows{
      {"num_key_value_heads", "2"}, {"use_sliding_window", "true"}, {"sliding_window", "8"}};
  const auto with = [&](const char* name, const char* value) {
    auto all = windows;
    all[name] = value;
    return all;
  };
  EXPECT_EQ(block_of("qwen2", with("max_window_layers", "0")).window, 8);
  EXPECT_EQ(block_of("qwen2", with("max_window_layers", "3")).window, 0);
  EXPECT_EQ(block_of("qwen2", with("layer_types", R"(["sliding_attention", "sliding_attention"])")).window, 8);
  EXPECT_EQ(block_of("qwen2", with("layer_types", R"(["full_attention"])")).window, 0);
  EXPECT_EQ(refusal("qwen2", with("max_window_layers", "1")), "field 'max_window_layers' is 1 of 3 layers");
  EXPECT_EQ(refusal("qwen2", with("layer_types", R"(["full_attention", "sliding_attention"])")),
            "field 'layer_types' has full_attention, sliding_attention");
}

TEST(ForeignConfig, ReadsGpt2AndBert) {
  const ModelSpec gpt2 = model_from_json(R"({"model_type": "gpt2"})", "gpt2.json");
  EXPECT_EQ(gpt2.layers, find_model_preset("gpt2").layers);
  EXPECT_EQ(gpt2.name, "gpt2");
  EXPECT_EQ(model_from_json(R"({"model_type": "gpt2", "n_inner": 100})", "a.json").layers[1].hidden, 100);
  const std::map<std::string, std::string> bert{{"hidden_act", "\"gelu_new\""}, {"layer_norm_eps", "1e-5"}};
  const ModelSpec model = gated("bert", bert);
  EXPECT_EQ(model.layers[0].token_types, 2);
  EXPECT_EQ(model.layers[0].max_steps, 64);
  EXPECT_TRUE(model.layers[2].post_norm && !model.layers[2].causal);
  EXPECT_EQ(gated("bert", {{"hidden_act", "\"gelu_new\""}}).layers[1].epsilon, 1e-12);
  EXPECT_EQ(refusal("bert", {{"hidden_act", "\"relu\""}}), "field 'hidden_act' is \"relu\"");
  EXPECT_TRUE(gated("bert", {}).layers[2].exact_gelu);
  EXPECT_FALSE(gated("bert", bert).layers[2].exact_gelu);
  EXPECT_EQ(refusal("bert", {{"hidden_act", "\"gelu_new\""}, {"position_embedding_type", "\"relative_key\""}}),
            "field 'position_embedding_type' is \"relative_key\"");
}

TEST(ForeignConfig, RefusesWhatIsNotComputed) {
  EXPECT_EQ(refusal("xyz", {}), "field 'model_type' is \"xyz\"");
  try {
    gated("xyz");
  } catch (const Error& error) {
    EXPECT_NE(error.remedy().find("llama, mistral, qwen2, qwen3, gpt2, bert"), std::string::npos) << error.remedy();
  }
  EXPECT_EQ(refusal("llama", {{"rope_scaling", R"({"rope_type": "dynamic", "factor": 2})"}}),
            "field 'rope_scaling.rope_type' is \"dynamic\"");
  EXPECT_EQ(refusal("llama", {{"rope_scaling", R"({"type": "su", "factor": 2})"}}),
            "field 'rope_scaling.type' is \"su\"");
  EXPECT_EQ(refusal("llama", {{"rope_scaling", R"({"type": "linear"})"}}), "field 'rope_scaling.factor' is missing");
  EXPECT_EQ(refusal("llama", {{"rope_parameters", R"({"full_attention": {}})"}}),
            "field 'rope_parameters.full_attention' is of one kind of layer");
  EXPECT_EQ(refusal("llama", {{"attn_logit_softcapping", "50.0"}}), "field 'attn_logit_softcapping' is not computed");
  EXPECT_EQ(refusal("llama", {{"attn_logit_softcapping", "null"}}), "accepted");
  EXPECT_EQ(refusal("llama", {{"partial_rotary_factor", "0.5"}}), "field 'partial_rotary_factor' is 0.5");
  EXPECT_EQ(refusal("llama", {{"partial_rotary_factor", "1"}}), "accepted");
  EXPECT_EQ(refusal("llama", {{"hidden_act", "\"relu\""}}), "field 'hidden_act' is \"relu\"");
  EXPECT_EQ(refusal("llama", {{"num_hidden_layers", "100000000"}}), "field 'num_hidden_layers' is 100000000");
  EXPECT_EQ(refusal("llama", {{"hidden_size", ""}}), "field 'hidden_size' is missing");
  EXPECT_EQ(refusal("llama", {{"hidden_size", "30"}}),
            "model 'tiny': layer 1 (transformer_block): its 30 units cannot be divided among 4 heads");
  EXPECT_EQ(refusal("llama", {{"num_key_value_heads", "3"}}),
            "model 'tiny': layer 1 (transformer_block): its 4 heads cannot share 3 heads of keys and values evenly");
  EXPECT_EQ(refusal("gpt2", {{"scale_attn_by_inverse_layer_idx", "true"}}),
            "field 'scale_attn_by_inverse_layer_idx' is true");
  EXPECT_EQ(refusal("gpt2", {{"n_head", "5"}}),
            "model 'tiny': layer 1 (transformer_block): its 768 units cannot be divided among 5 heads");
}

}  // namespace
}  // namespace amdahl
