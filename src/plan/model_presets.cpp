#include "plan/model_presets.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "amdahl/error.h"

namespace amdahl {
namespace {

ModelSpec mlp(std::string name, int64_t input_width, const std::vector<int64_t>& hidden, double dropout,
              bool output_bias) {
  ModelSpec model{std::move(name), input_width, {}, LossKind::mse};
  for (int64_t units : hidden) model.layers.push_back({units, true, Activation::relu, dropout});
  model.layers.push_back({3, output_bias, Activation::none, 0.0});
  return model;
}

LayerSpec output_layer(int64_t units) { return {units, true, Activation::none, 0.0}; }

ModelSpec sequence_model(std::string name, std::vector<LayerSpec> layers) {
  constexpr int64_t kSteps = 96, kFeatures = 50;
  layers.push_back(output_layer(3));
  return {std::move(name), kSteps * kFeatures, std::move(layers), LossKind::mse, {kSteps, kFeatures}};
}

ModelSpec recurrent(std::string name, LayerKind kind) {
  LayerSpec cells = of_kind(kind, 256);
  cells.last_step_only = true;
  return sequence_model(std::move(name), {cells});
}

LayerSpec block(int64_t units, int64_t heads, bool causal, bool post_norm) {
  LayerSpec layer = of_kind(LayerKind::transformer_block, units);
  layer.heads = heads;
  layer.causal = causal;
  layer.post_norm = post_norm;
  return layer;
}

ModelSpec study_transformer() {
  constexpr int64_t kUnits = 192;
  std::vector<LayerSpec> layers{of_kind(LayerKind::projection, kUnits)};
  layers.insert(layers.end(), 4, block(kUnits, 3, false, false));
  layers.push_back(of_kind(LayerKind::layer_norm));
  layers.push_back(of_kind(LayerKind::pool));
  return sequence_model("transformer", std::move(layers));
}

LayerSpec token_embedding(const TokenModel& tokens) {
  LayerSpec layer = of_kind(LayerKind::embedding, tokens.block.units);
  layer.vocabulary = tokens.vocabulary;
  layer.positions = tokens.positions > 0;
  layer.max_steps = tokens.positions;
  layer.token_types = tokens.token_types;
  return layer;
}

LayerSpec norm_like(const LayerSpec& block) {
  LayerSpec layer = of_kind(LayerKind::layer_norm);
  layer.norm = block.norm;
  layer.epsilon = block.epsilon;
  return layer;
}

ModelSpec gpt2(std::string name, int64_t units, int64_t heads, size_t blocks) {
  constexpr int64_t kSteps = 1024, kVocabulary = 50'257;
  return decoder_model({.name = std::move(name),
                        .block = block(units, heads, true, false),
                        .blocks = blocks,
                        .vocabulary = kVocabulary,
                        .steps = kSteps,
                        .positions = kSteps,
                        .tied = true});
}

ModelSpec bert(std::string name, int64_t units, int64_t heads, size_t blocks) {
  constexpr int64_t kSteps = 512, kVocabulary = 30'522;
  return encoder_model({.name = std::move(name),
                        .block = block(units, heads, false, true),
                        .blocks = blocks,
                        .vocabulary = kVocabulary,
                        .steps = kSteps,
                        .positions = kSteps,
                        .token_types = 2});
}

enum class Tied { no, yes };
enum class QueryParts { plain, bias, norm };  // biases of q, k and v (Qwen2.5), their normalisation (Qwen3)

/// Published decoders with RMSNorm, SwiGLU and rotary positions.
struct DecoderRow {
  const char* name;
  int64_t units;
  size_t blocks;
  int64_t heads, kv_heads, head_dim, hidden, vocabulary;
  Tied tied;
  QueryParts query;
  double epsilon, theta, llama3_factor;  // 0: frequencies are not scaled
  int64_t window = 0;
};
constexpr DecoderRow kDecoders[] = {
    {"llama3.2-1b", 2048, 16, 32, 8, 64, 8192, 128'256, Tied::yes, QueryParts::plain, 1e-5, 5e5, 32},
    {"llama3.2-3b", 3072, 28, 24, 8, 128, 8192, 128'256, Tied::yes, QueryParts::plain, 1e-5, 5e5, 32},
    {"llama3.1-8b", 4096, 32, 32, 8, 128, 14'336, 128'256, Tied::no, QueryParts::plain, 1e-5, 5e5, 8},
    {"qwen2.5-0.5b", 896, 24, 14, 2, 64, 4864, 151'936, Tied::yes, QueryParts::bias, 1e-6, 1e6, 0},
    {"qwen2.5-1.5b", 1536, 28, 12, 2, 128, 8960, 151'936, Tied::yes, QueryParts::bias, 1e-6, 1e6, 0},
    {"qwen2.5-7b", 3584, 28, 28, 4, 128, 18'944, 152'064, Tied::no, QueryParts::bias, 1e-6, 1e6, 0},
    {"qwen3-0.6b", 1024, 28, 16, 8, 128, 3072, 151'936, Tied::yes, QueryParts::norm, 1e-6, 1e6, 0},
    {"qwen3-1.7b", 2048, 28, 16, 8, 128, 6144, 151'936, Tied::yes, QueryParts::norm, 1e-6, 1e6, 0},
    {"qwen3-8b", 4096, 36, 32, 8, 128, 12'288, 151'936, Tied::no, QueryParts::norm, 1e-6, 1e6, 0},
    {"mistral-7b", 4096, 32, 32, 8, 128, 14'336, 32'000, Tied::no, QueryParts::plain, 1e-5, 1e4, 0, 4096},
    {"smollm2-135m", 576, 30, 9, 3, 64, 1536, 49'152, Tied::yes, QueryParts::plain, 1e-5, 1e5, 0},
};

ModelSpec decoder_of(const DecoderRow& row) {
  LayerSpec parts = block(row.units, row.heads, true, false);
  parts.norm = NormKind::rms, parts.epsilon = row.epsilon;
  parts.kv_heads = row.kv_heads, parts.head_dim = row.head_dim, parts.hidden = row.hidden;
  parts.mlp = MlpKind::swiglu;
  parts.qkv_bias = row.query == QueryParts::bias, parts.out_bias = parts.mlp_bias = false;
  parts.qk_norm = row.query == QueryParts::norm;
  parts.window = row.window, parts.rope_theta = row.theta;
  if (row.llama3_factor > 0) {
    parts.rope_scaling = RopeScaling::llama3, parts.rope_factor = row.llama3_factor;
    parts.rope_original_steps = 8192, parts.rope_low = 1, parts.rope_high = 4;
  }
  return decoder_model({.name = row.name,
                        .block = parts,
                        .blocks = row.blocks,
                        .vocabulary = row.vocabulary,
                        .steps = kDecoderSteps,
                        .tied = row.tied == Tied::yes});
}

/// The residual blocks of a ResNet behind its stem, in groups of which each halves the pixels of the one before.
/// `bottlenecks`: of a quarter of the units.
ModelSpec resnet(std::string name, int64_t pixels, std::vector<LayerSpec> layers, const std::vector<size_t>& blocks,
                 bool bottlenecks, int64_t classes) {
  constexpr int64_t kColors = 3, kFirst = 64, kExpansion = 4;
  int64_t channels = kFirst;
  for (const size_t count : blocks) {
    for (size_t i = 0; i < count; ++i) {
      layers.push_back(of_kind(LayerKind::residual_block, bottlenecks ? kExpansion * channels : channels));
      layers.back().bottleneck = bottlenecks ? channels : 0;
      layers.back().stride = i == 0 && channels > kFirst ? 2 : 1;
    }
    channels *= 2;
  }
  layers.push_back(of_kind(LayerKind::average_pool));
  layers.push_back(output_layer(classes));
  return {std::move(name),
          pixels * pixels * kColors,
          std::move(layers),
          LossKind::softmax_cross_entropy,
          {pixels, pixels, kColors}};
}

/// For images of 32 x 32 pixels: a convolution of 3 x 3 first, no pooling.
ModelSpec small_resnet(std::string name, const std::vector<size_t>& blocks) {
  return resnet(std::move(name), 32, {of_kind(LayerKind::conv, 64)}, blocks, false, 10);
}

/// For ImageNet's images, with the stride of a bottleneck in the convolution of 3 x 3.
ModelSpec bottleneck_resnet(std::string name, const std::vector<size_t>& blocks) {
  std::vector<LayerSpec> stem{of_kind(LayerKind::conv, 64), of_kind(LayerKind::max_pool)};
  stem[0].kernel = 7, stem[0].stride = stem[1].stride = 2;
  return resnet(std::move(name), 224, std::move(stem), blocks, true, 1000);
}

}  // namespace

LayerSpec of_kind(LayerKind kind, int64_t units) {
  LayerSpec layer;
  layer.kind = kind;
  layer.units = units;
  layer.activation = Activation::none;
  return layer;
}

ModelSpec decoder_model(const TokenModel& tokens) {
  std::vector<LayerSpec> layers{token_embedding(tokens)};
  layers.insert(layers.end(), tokens.blocks, tokens.block);
  layers.push_back(norm_like(tokens.block));
  LayerSpec head = of_kind(LayerKind::token_head);
  head.vocabulary = tokens.vocabulary;
  head.tied = tokens.tied;
  layers.push_back(head);
  return {tokens.name, tokens.steps, std::move(layers), LossKind::softmax_cross_entropy, {tokens.steps}};
}

ModelSpec encoder_model(const TokenModel& tokens) {
  std::vector<LayerSpec> layers{token_embedding(tokens), norm_like(tokens.block)};
  layers.insert(layers.end(), tokens.blocks, tokens.block);
  LayerSpec first = of_kind(LayerKind::pool);
  first.pooling = Pooling::first;
  layers.push_back(first);
  layers.push_back(output_layer(tokens.block.units));
  return {tokens.name, tokens.steps, std::move(layers), LossKind::mse, {tokens.steps}};
}

const std::vector<ModelSpec>& model_presets() {
  // By the study's code: 54,403 and 2,021,379 parameters. By its text: 258,432 and 6,885,376, which input widths of 847
  // and 4,800 and an output layer without bias reproduce exactly.
  static const std::vector<ModelSpec> presets = [] {
    std::vector<ModelSpec> all{
        mlp("medium", 50, {256, 128, 64}, 0.2, true),
        mlp("large", 50, {1024, 1024, 512, 512, 256}, 0.3, true),
        mlp("medium-258k", 847, {256, 128, 64}, 0.2, false),
        mlp("large-6.9m", 4800, {1024, 1024, 512, 512, 256}, 0.3, false),
        recurrent("lstm", LayerKind::lstm),
        recurrent("gru", LayerKind::gru),
        study_transformer(),
        gpt2("gpt2", 768, 12, 12),
        gpt2("gpt2-medium", 1024, 16, 24),
        gpt2("gpt2-large", 1280, 20, 36),
        gpt2("gpt2-xl", 1600, 25, 48),
        bert("bert-base", 768, 12, 12),
        bert("bert-large", 1024, 16, 24),
        small_resnet("resnet18", {2, 2, 2, 2}),
        small_resnet("resnet34", {3, 4, 6, 3}),
        bottleneck_resnet("resnet50", {3, 4, 6, 3}),
        bottleneck_resnet("resnet152", {3, 8, 36, 3}),
    };
    for (const DecoderRow& row : kDecoders) all.push_back(decoder_of(row));
    return all;
  }();
  return presets;
}

ModelSpec find_model_preset(std::string_view name) {
  std::vector<std::string> names;
  for (const ModelSpec& preset : model_presets()) {
    if (preset.name == name) return preset;
    names.push_back(preset.name);
  }
  throw Error(Cause::usage, fmt::format("unknown model '{}'", name), choices_hint(name, names) + ", or a JSON file");
}

}  // namespace amdahl
