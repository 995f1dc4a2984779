#include "spec/foreign_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "plan/model_presets.h"

namespace amdahl {
namespace {

using nlohmann::json;

/// Fields of a configuration; null is as good as absent.
class Config {
 public:
  explicit Config(const Fields& fields) : fields_(fields) {}

  bool has(const char* name) const { return fields_.has(name) && !fields_.value().at(name).is_null(); }
  int64_t size(const char* name) const {
    constexpr int64_t kMost = int64_t{1} << 24;
    const int64_t value = fields_.integer(name);
    if (value < 1 || value > kMost) fields_.fail(name, fmt::format("is {}", value), "1 to 16,777,216");
    return value;
  }
  int64_t size_or(const char* name, int64_t fallback) const { return has(name) ? size(name) : fallback; }
  double number_or(const char* name, double fallback) const { return has(name) ? fields_.number(name) : fallback; }
  /// `fallback` where the field is absent, and `without` where it is null.
  int64_t size_or(const char* name, int64_t fallback, int64_t without) const {
    return has(name) || !fields_.has(name) ? size_or(name, fallback) : without;
  }
  bool boolean_or(const char* name, bool fallback) const { return has(name) ? fields_.boolean(name) : fallback; }
  std::string text_or(const char* name, const char* fallback) const {
    return has(name) ? fields_.text(name) : std::string(fallback);
  }
  size_t blocks(const char* name) const {
    constexpr int64_t kMost = 1000;
    const int64_t value = size(name);
    if (value > kMost) fields_.fail(name, fmt::format("is {}", value), "at most 1,000");
    return static_cast<size_t>(value);
  }
  Config object(const char* name) const { return Config(fields_.object(name)); }
  /// The only value that is computed here.
  template <class Value>
  void require(const char* name, const Value& value) const {
    if (has(name) && fields_.value().at(name) != json(value))
      fields_.fail(name, fmt::format("is {}", fields_.value().at(name).dump()),
                   fmt::format("{}: nothing else is computed", json(value).dump()));
  }
  void require_absent(const char* name) const {
    if (has(name)) fail(name, "is not computed", "a model without it");
  }
  [[noreturn]] void fail(const char* name, const std::string& problem, const std::string& remedy) const {
    fields_.fail(name, problem, remedy);
  }
  const Fields& fields() const { return fields_; }

 private:
  Fields fields_;
};

struct RopeRow {
  const char* name;
  RopeScaling scaling;
};
constexpr RopeRow kRopes[] = {{"default", RopeScaling::none},
                              {"linear", RopeScaling::linear},
                              {"llama3", RopeScaling::llama3},
                              {"yarn", RopeScaling::yarn}};

// YaRN's factor on cosine and sine of models that name two scales of attention (DeepSeek).
double yarn_attention(const Config& rope, double factor) {
  if (rope.has("attention_factor")) return rope.number_or("attention_factor", 0);
  if (!rope.has("mscale") || !rope.has("mscale_all_dim")) return 0;
  const auto scaled = [&](const char* name) { return 0.1 * rope.number_or(name, 0) * std::log(factor) + 1; };
  return scaled("mscale") / scaled("mscale_all_dim");
}

void read_scaling(const Config& config, const Config& rope, LayerSpec& block) {
  const char* field = rope.has("rope_type") ? "rope_type" : "type";
  const std::string type = rope.text_or(field, "default");
  const auto* row =
      std::find_if(std::begin(kRopes), std::end(kRopes), [&](const RopeRow& r) { return type == r.name; });
  if (row == std::end(kRopes))
    rope.fail(field, fmt::format("is \"{}\"", type), "default, linear, llama3 or yarn: no other scaling is computed");
  rope.require("partial_rotary_factor", 1.0);
  block.rope_scaling = row->scaling;
  if (row->scaling == RopeScaling::none) return;
  block.rope_factor = rope.fields().number("factor");
  if (row->scaling == RopeScaling::linear) return;
  block.rope_original_steps = row->scaling == RopeScaling::llama3 || rope.has("original_max_position_embeddings")
                                  ? rope.size("original_max_position_embeddings")
                                  : config.size("max_position_embeddings");
  if (row->scaling == RopeScaling::llama3) {
    block.rope_low = rope.fields().number("low_freq_factor");
    block.rope_high = rope.fields().number("high_freq_factor");
    return;
  }
  rope.require("truncate", true);
  block.rope_low = rope.number_or("beta_slow", 1);
  block.rope_high = rope.number_or("beta_fast", 32);
  block.rope_attention = yarn_attention(rope, block.rope_factor);
}

// "rope_theta" and "rope_scaling", or, since transformers 5, both in "rope_parameters".
void read_rotation(const Config& config, LayerSpec& block) {
  constexpr double kTheta = 1e4;
  config.require("partial_rotary_factor", 1.0);
  block.rope_theta = config.number_or("rope_theta", kTheta);
  const char* name = config.has("rope_parameters") ? "rope_parameters" : "rope_scaling";
  if (!config.has(name)) return;
  const Config rope = config.object(name);
  for (const char* kind : {"full_attention", "sliding_attention"})
    if (rope.has(kind)) rope.fail(kind, "is of one kind of layer", "one rotation for all layers");
  block.rope_theta = rope.number_or("rope_theta", block.rope_theta);
  read_scaling(config, rope, block);
}

void require_no_caps(const Config& config) {
  for (const char* name : {"attn_logit_softcapping", "final_logit_softcapping", "logit_softcapping",
                           "quantization_config", "query_pre_attn_scalar"})
    config.require_absent(name);
}

/// "full_attention" or "sliding_attention" of all layers; empty: the field is absent.
std::string attention_of_layers(const Config& config) {
  if (!config.has("layer_types")) return "";
  std::set<std::string> kinds;
  for (const std::string& kind : config.fields().texts("layer_types")) kinds.insert(kind);
  std::string kind = kinds.size() == 1 ? *kinds.begin() : "";
  if (kind != "full_attention" && kind != "sliding_attention")
    config.fail("layer_types", fmt::format("has {}", fmt::join(kinds, ", ")),
                "full_attention alone or sliding_attention alone: layers of several kinds are not computed");
  return kind;
}

// Qwen's models have a window only in the layers from max_window_layers on.
void read_qwen_window(const Config& config, size_t blocks, LayerSpec& block) {
  constexpr int64_t kWindow = 4096, kFullLayers = 28;
  const std::string kind = attention_of_layers(config);
  if (kind == "full_attention" || (kind.empty() && !config.boolean_or("use_sliding_window", false))) return;
  if (kind.empty()) {
    const int64_t full = config.has("max_window_layers") ? config.fields().integer("max_window_layers") : kFullLayers;
    if (full >= static_cast<int64_t>(blocks)) return;
    if (full > 0)
      config.fail("max_window_layers", fmt::format("is {} of {} layers", full, blocks),
                  "0 or all: layers of several kinds are not computed");
  }
  block.window = config.size_or("sliding_window", kWindow, 0);
}

/// `others`: what the field may be instead, with a comma.
void read_gelu(const Config& config, const char* name, const std::string& act, const char* others, LayerSpec& block) {
  if (act != "gelu" && act != "gelu_new" && act != "gelu_pytorch_tanh")
    config.fail(name, fmt::format("is \"{}\"", act),
                fmt::format("{}gelu (by erf), gelu_new or gelu_pytorch_tanh: nothing else is computed", others));
  block.exact_gelu = act == "gelu";
}

/// `kv_heads`: where the configuration has none; 0: as many as heads.
LayerSpec gated_block(const Config& config, int64_t kv_heads) {
  constexpr double kEpsilon = 1e-6;
  LayerSpec block = of_kind(LayerKind::transformer_block, config.size("hidden_size"));
  block.heads = config.size("num_attention_heads");
  block.causal = true;
  block.norm = NormKind::rms;
  block.epsilon = config.number_or("rms_norm_eps", kEpsilon);
  block.kv_heads = config.size_or("num_key_value_heads", kv_heads > 0 ? kv_heads : block.heads, block.heads);
  block.head_dim = config.size_or("head_dim", 0);
  block.hidden = config.size("intermediate_size");
  const std::string act = config.text_or("hidden_act", "silu");
  block.mlp = act == "silu" || act == "swish" ? MlpKind::swiglu : MlpKind::geglu;
  if (block.mlp == MlpKind::geglu) read_gelu(config, "hidden_act", act, "silu, ", block);
  block.qkv_bias = block.out_bias = block.mlp_bias = false;
  read_rotation(config, block);
  require_no_caps(config);
  return block;
}

TokenModel gated_decoder(const Config& config, const LayerSpec& block, int64_t most_steps) {
  return {.block = block,
          .blocks = config.blocks("num_hidden_layers"),
          .vocabulary = config.size("vocab_size"),
          .steps = std::min(kDecoderSteps, config.size_or("max_position_embeddings", most_steps)),
          .tied = config.boolean_or("tie_word_embeddings", false)};
}

ModelSpec llama_model(const Config& config) {
  LayerSpec block = gated_block(config, 0);
  block.qkv_bias = block.out_bias = config.boolean_or("attention_bias", false);
  block.mlp_bias = config.boolean_or("mlp_bias", false);
  if (attention_of_layers(config) == "sliding_attention") block.window = config.size("sliding_window");
  return decoder_model(gated_decoder(config, block, 2048));
}

ModelSpec mistral_model(const Config& config) {
  LayerSpec block = gated_block(config, 8);
  constexpr int64_t kWindow = 4096;
  if (attention_of_layers(config) != "full_attention") block.window = config.size_or("sliding_window", kWindow, 0);
  return decoder_model(gated_decoder(config, block, 131'072));
}

ModelSpec qwen2_model(const Config& config) {
  LayerSpec block = gated_block(config, 32);
  block.qkv_bias = true;
  read_qwen_window(config, config.blocks("num_hidden_layers"), block);
  return decoder_model(gated_decoder(config, block, 32'768));
}

ModelSpec qwen3_model(const Config& config) {
  constexpr int64_t kHeadDim = 128;
  LayerSpec block = gated_block(config, 32);
  block.head_dim = config.size_or("head_dim", kHeadDim, 0);
  block.qkv_bias = block.out_bias = config.boolean_or("attention_bias", false);
  block.qk_norm = true;
  read_qwen_window(config, config.blocks("num_hidden_layers"), block);
  return decoder_model(gated_decoder(config, block, 32'768));
}

ModelSpec gpt2_model(const Config& config) {
  constexpr int64_t kUnits = 768, kHeads = 12, kPositions = 1024, kVocabulary = 50'257;
  LayerSpec block = of_kind(LayerKind::transformer_block, config.size_or("n_embd", kUnits));
  block.heads = config.size_or("n_head", kHeads);
  block.causal = true;
  block.epsilon = config.number_or("layer_norm_epsilon", block.epsilon);
  block.hidden = config.size_or("n_inner", 0);
  read_gelu(config, "activation_function", config.text_or("activation_function", "gelu_new"), "", block);
  config.require("scale_attn_weights", true);
  config.require("scale_attn_by_inverse_layer_idx", false);
  config.require("add_cross_attention", false);
  const int64_t positions = config.size_or("n_positions", kPositions);
  return decoder_model({.block = block,
                        .blocks = config.has("n_layer") ? config.blocks("n_layer") : 12,
                        .vocabulary = config.size_or("vocab_size", kVocabulary),
                        .steps = std::min(kDecoderSteps, positions),
                        .positions = positions,
                        .tied = config.boolean_or("tie_word_embeddings", true)});
}

ModelSpec bert_model(const Config& config) {
  constexpr double kEpsilon = 1e-12;
  LayerSpec block = of_kind(LayerKind::transformer_block, config.size("hidden_size"));
  block.heads = config.size("num_attention_heads");
  block.post_norm = true;
  block.epsilon = config.number_or("layer_norm_eps", kEpsilon);
  block.hidden = config.size("intermediate_size");
  read_gelu(config, "hidden_act", config.text_or("hidden_act", "gelu"), "", block);
  config.require("position_embedding_type", "absolute");
  config.require("is_decoder", false);
  const int64_t positions = config.size_or("max_position_embeddings", 512);
  return encoder_model({.block = block,
                        .blocks = config.blocks("num_hidden_layers"),
                        .vocabulary = config.size("vocab_size"),
                        .steps = std::min(kDecoderSteps, positions),
                        .positions = positions,
                        .token_types = config.size_or("type_vocab_size", 2)});
}

struct FamilyRow {
  const char* name;
  ModelSpec (*model)(const Config& config);
};
constexpr FamilyRow kFamilies[] = {{"llama", llama_model}, {"mistral", mistral_model}, {"qwen2", qwen2_model},
                                   {"qwen3", qwen3_model}, {"gpt2", gpt2_model},       {"bert", bert_model}};

/// Of the file, or of its folder where the file is called config.json as every such file is.
std::string name_of(std::string_view origin, const std::string& type) {
  const std::filesystem::path path(origin);
  const std::string name = (path.filename() == "config.json" ? path.parent_path().filename() : path.stem()).string();
  return name.empty() || name == "." || name == ".." ? type : name.substr(0, 200);
}

}  // namespace

ModelSpec model_of_config(const Fields& fields, std::string_view origin) {
  const Config config(fields);
  const std::string type = fields.text("model_type");
  std::vector<std::string> known;
  for (const FamilyRow& family : kFamilies) {
    known.emplace_back(family.name);
    if (type != family.name) continue;
    ModelSpec model = family.model(config);
    model.name = name_of(origin, type);
    return model;
  }
  fields.fail("model_type", fmt::format("is \"{}\"", type), choices_hint(type, known));
}

}  // namespace amdahl
