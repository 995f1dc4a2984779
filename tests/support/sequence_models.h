// Small models of every kind of sequence and image layer: the shapes of the presets, a few units wide.
#pragma once

#include <string>
#include <vector>

#include "amdahl/plan.h"
#include "small_job.h"

namespace amdahl::test {

struct SmallModel {
  std::string name;
  ModelSpec spec;
};

inline LayerSpec layer_of(LayerKind kind, int64_t units = 0) {
  LayerSpec layer;
  layer.kind = kind;
  layer.units = units;
  layer.activation = Activation::none;
  return layer;
}

inline LayerSpec small_block(int64_t units, int64_t heads, bool causal, bool post_norm) {
  LayerSpec layer = layer_of(LayerKind::transformer_block, units);
  layer.heads = heads, layer.causal = causal, layer.post_norm = post_norm;
  return layer;
}

/// As preset "transformer": 7 steps of 5 features, 24 units in 3 heads.
inline ModelSpec small_transformer() {
  return {"small-transformer",
          35,
          {layer_of(LayerKind::projection, 24), small_block(24, 3, false, false), small_block(24, 3, false, false),
           layer_of(LayerKind::layer_norm), layer_of(LayerKind::pool), LayerSpec{3, true, Activation::none, 0.0}},
          LossKind::mse,
          {7, 5}};
}

/// As preset "gpt2": 9 tokens of a vocabulary of 21.
inline ModelSpec small_gpt(bool tied) {
  LayerSpec first = layer_of(LayerKind::embedding, 16), head = layer_of(LayerKind::token_head);
  first.vocabulary = head.vocabulary = 21;
  first.max_steps = 11;
  head.tied = tied;
  return {
      "small-gpt",
      9,
      {first, small_block(16, 2, true, false), small_block(16, 2, true, false), layer_of(LayerKind::layer_norm), head},
      LossKind::softmax_cross_entropy,
      {9}};
}

/// Logits of 7 tokens at once, which ends within a row and leaves a shorter last chunk.
inline ModelSpec small_chunks(bool tied) {
  ModelSpec model = small_gpt(tied);
  model.name = "small-chunks";
  model.layers.back().chunk_rows = 7;
  return model;
}

/// A small_gpt with blocks like `block`, and the normalisation of these behind them.
inline ModelSpec small_decoder(std::string name, const LayerSpec& block, bool tied) {
  ModelSpec model = small_gpt(tied);
  model.name = std::move(name);
  for (LayerSpec& layer : model.layers) {
    if (layer.kind == LayerKind::embedding) layer.units = block.units, layer.positions = false, layer.max_steps = 0;
    if (layer.kind == LayerKind::transformer_block) layer = block;
    if (layer.kind == LayerKind::layer_norm) layer.norm = block.norm, layer.epsilon = block.epsilon;
  }
  return model;
}

/// As Llama 3: two queries share keys and values, gated layers, no bias.
inline ModelSpec small_llama() {
  LayerSpec block = small_block(16, 4, true, false);
  block.norm = NormKind::rms, block.epsilon = 1e-3;
  block.kv_heads = 2, block.head_dim = 8, block.hidden = 24, block.mlp = MlpKind::swiglu;
  block.qkv_bias = block.out_bias = block.mlp_bias = false;
  block.rope_theta = 100, block.rope_scaling = RopeScaling::llama3, block.rope_factor = 4;
  block.rope_original_steps = 24, block.rope_low = 1, block.rope_high = 3;
  return small_decoder("small-llama", block, true);
}

/// What Qwen and Mistral add: heads of a free width that are normalised, biases of some products, a window.
inline ModelSpec small_qwen() {
  LayerSpec block = small_block(12, 4, true, false);
  block.norm = NormKind::rms;
  block.kv_heads = 2, block.head_dim = 8, block.hidden = 20, block.mlp = MlpKind::geglu;
  block.out_bias = false, block.qk_norm = true, block.window = 4;
  block.rope_theta = 50, block.rope_scaling = RopeScaling::yarn, block.rope_factor = 2;
  block.rope_original_steps = 6, block.rope_low = 0.25, block.rope_high = 2;
  return small_decoder("small-qwen", block, false);
}

/// The other choices: normalisation of the root mean square behind the additions, GELU without a bias before it.
inline ModelSpec small_post_rms() {
  LayerSpec block = small_block(24, 3, false, true);
  block.norm = NormKind::rms, block.kv_heads = 1, block.hidden = 17, block.mlp_bias = false;
  block.rope_theta = 30, block.rope_scaling = RopeScaling::linear, block.rope_factor = 3;
  return small_decoder("small-post-rms", block, true);
}

/// With documents in the rows: of few tokens, every fifth of random ones begins one.
inline ModelSpec with_documents(ModelSpec model) {
  model.name += "-documents";
  model.layers.front().vocabulary = model.layers.back().vocabulary = 5;
  model.layers.front().end_token = 3;
  return model;
}

/// As preset "bert-base": post-norm blocks, the first step pooled.
inline ModelSpec small_bert() {
  LayerSpec first = layer_of(LayerKind::embedding, 16), pool = layer_of(LayerKind::pool);
  first.vocabulary = 13, first.token_types = 2;
  pool.pooling = Pooling::first;
  return {"small-bert",
          6,
          {first, layer_of(LayerKind::layer_norm), small_block(16, 2, false, true), small_block(16, 1, false, true),
           pool, LayerSpec{5, true, Activation::none, 0.0}},
          LossKind::mse,
          {6}};
}

inline ModelSpec small_exact_bert() {
  ModelSpec model = small_bert();
  for (LayerSpec& layer : model.layers) layer.exact_gelu = layer.kind == LayerKind::transformer_block;
  return model;
}

/// A classifier of sequences without positions, with the last step pooled and two dense layers on top.
inline ModelSpec small_classifier() {
  LayerSpec first = layer_of(LayerKind::projection, 8), pool = layer_of(LayerKind::pool);
  first.positions = false;
  pool.pooling = Pooling::last;
  return {"small-classifier",
          12,
          {first, small_block(8, 1, true, false), pool, LayerSpec{10, true, Activation::relu, 0.0},
           LayerSpec{4, true, Activation::none, 0.0}},
          LossKind::softmax_cross_entropy,
          {4, 3}};
}

/// As presets "lstm" and "gru", with a second layer of cells below.
inline ModelSpec small_recurrent(LayerKind kind) {
  LayerSpec below = layer_of(kind, 6), cells = layer_of(kind, 10);
  cells.last_step_only = true;
  return {"small-recurrent", 35, {below, cells, LayerSpec{3, true, Activation::none, 0.0}}, LossKind::mse, {7, 5}};
}

/// As preset "resnet18": images of 6 x 5 pixels, shortcuts of both kinds.
inline ModelSpec small_resnet() {
  LayerSpec halving = layer_of(LayerKind::residual_block, 6);
  halving.stride = 2;
  return {"small-resnet",
          90,
          {layer_of(LayerKind::conv, 4), layer_of(LayerKind::residual_block, 4), halving,
           layer_of(LayerKind::average_pool), LayerSpec{4, true, Activation::none, 0.0}},
          LossKind::softmax_cross_entropy,
          {6, 5, 3}};
}

/// As preset "resnet50": images of 19 x 14 pixels, a pooled stem, shortcuts of both kinds.
inline ModelSpec small_bottleneck_resnet() {
  LayerSpec stem = layer_of(LayerKind::conv, 4), pool = layer_of(LayerKind::max_pool);
  stem.kernel = 7, stem.stride = pool.stride = 2;
  LayerSpec wide = layer_of(LayerKind::residual_block, 8), halving = layer_of(LayerKind::residual_block, 12);
  wide.bottleneck = 3, halving.bottleneck = 5, halving.stride = 2;
  return {
      "small-bottleneck-resnet",
      19 * 14 * 3,
      {stem, pool, wide, wide, halving, layer_of(LayerKind::average_pool), LayerSpec{4, true, Activation::none, 0.0}},
      LossKind::softmax_cross_entropy,
      {19, 14, 3}};
}

inline std::vector<SmallModel> small_sequence_models() {
  return {{"transformer", small_transformer()},
          {"gpt_tied", small_gpt(true)},
          {"gpt_untied", small_gpt(false)},
          {"gpt_chunks", small_chunks(true)},
          {"gpt_untied_chunks", small_chunks(false)},
          {"bert", small_bert()},
          {"exact_bert", small_exact_bert()},
          {"llama", small_llama()},
          {"qwen", small_qwen()},
          {"post_rms", small_post_rms()},
          {"gpt_documents", with_documents(small_gpt(true))},
          {"llama_documents", with_documents(small_llama())},
          {"qwen_documents", with_documents(small_qwen())},
          {"classifier", small_classifier()},
          {"lstm", small_recurrent(LayerKind::lstm)},
          {"gru", small_recurrent(LayerKind::gru)},
          {"resnet", small_resnet()}};
}

/// Six dense layers of odd widths with dropout.
inline ModelSpec small_mlp(LossKind loss) {
  ModelSpec model;
  model.name = "deep-mlp";
  model.input_width = 13;
  for (const int64_t units : {31, 24, 40, 19, 33})
    model.layers.push_back({units, units != 40, Activation::relu, units % 2 == 0 ? 0.25 : 0.0});
  model.layers.push_back({5, true, Activation::none, 0.0});
  model.loss = loss;
  return model;
}

/// All kinds of layers.
inline std::vector<SmallModel> small_models() {
  std::vector<SmallModel> models = small_sequence_models();
  ModelSpec wide = small_gpt(true);  // heads and a vocabulary for four tensor-parallel ranks
  wide.name = "wide-gpt";
  for (LayerSpec& layer : wide.layers) {
    if (layer.kind == LayerKind::transformer_block) layer.heads = 4;
    if (layer.vocabulary > 0) layer.vocabulary = 37;
  }
  models.push_back({"gpt_wide", wide});
  models.push_back({"mlp", small_mlp(LossKind::mse)});
  models.push_back({"classifier_mlp", small_mlp(LossKind::softmax_cross_entropy)});
  return models;
}

}  // namespace amdahl::test
