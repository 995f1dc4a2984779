#include "planner/probes.h"

#include <fmt/format.h>

namespace amdahl {
namespace {

ModelSpec mlp(const std::vector<int64_t>& widths, int64_t inputs = 50, double dropout = 0.2) {
  ModelSpec model;
  model.name = fmt::format("mlp-{}", inputs);
  model.input_width = inputs;
  for (const int64_t width : widths) {
    model.name += fmt::format("-{}", width);
    LayerSpec layer;
    layer.units = width, layer.dropout = dropout;
    model.layers.push_back(layer);
  }
  LayerSpec last;
  last.units = 3, last.activation = Activation::none;
  model.layers.push_back(last);
  return model;
}

/// One layer of a kind over sequences of [steps, 40] values, a pool where it returns sequences, and a dense layer.
ModelSpec sequences(const char* name, LayerSpec layer, int64_t count, int64_t steps) {
  constexpr int64_t kFeatures = 40;
  ModelSpec model;
  model.name = name;
  model.input_width = steps * kFeatures, model.input_shape = {steps, kFeatures};
  LayerSpec other;
  other.activation = Activation::none;
  if (layer.kind == LayerKind::transformer_block) {
    other.kind = LayerKind::projection, other.units = layer.units;
    model.layers.push_back(other);
  }
  for (int64_t i = 0; i < count; ++i) model.layers.push_back(layer);
  other.units = 0;
  if (layer.kind == LayerKind::transformer_block)
    for (const LayerKind kind : {LayerKind::layer_norm, LayerKind::pool}) {
      other.kind = kind;
      model.layers.push_back(other);
    }
  other.kind = LayerKind::dense, other.units = 3;
  model.layers.push_back(other);
  return model;
}

ModelSpec encoder(const char* name, int64_t units, int64_t heads, int64_t blocks, int64_t steps) {
  LayerSpec block;
  block.kind = LayerKind::transformer_block, block.units = units, block.heads = heads;
  block.activation = Activation::none;
  return sequences(name, block, blocks, steps);
}

ModelSpec recurrent(const char* name, LayerKind kind, int64_t units, int64_t steps) {
  LayerSpec layer;
  layer.kind = kind, layer.units = units, layer.last_step_only = true, layer.activation = Activation::none;
  return sequences(name, layer, 1, steps);
}

ModelSpec small_gpt(int64_t units, int64_t heads, int64_t blocks, int64_t steps, int64_t vocabulary) {
  ModelSpec model;
  model.name = fmt::format("gpt-{}x{}", units, blocks);
  model.input_width = steps, model.input_shape = {steps};
  model.loss = LossKind::softmax_cross_entropy;
  LayerSpec layer;
  layer.activation = Activation::none;
  layer.kind = LayerKind::embedding, layer.units = units, layer.vocabulary = vocabulary;
  model.layers.push_back(layer);
  layer.kind = LayerKind::transformer_block, layer.heads = heads, layer.causal = true, layer.vocabulary = 0;
  for (int64_t i = 0; i < blocks; ++i) model.layers.push_back(layer);
  LayerSpec head;
  head.activation = Activation::none;
  head.kind = LayerKind::token_head, head.vocabulary = vocabulary, head.tied = true;
  model.layers.push_back(head);
  return model;
}

}  // namespace

std::vector<Probe> cpu_probes() {
  return {{mlp({320, 160, 80}), {16, 64, 256}, {"dp2", "dp4", "tp2", "pp2,m8"}},
          {mlp({2048, 512}), {32, 128}, {"dp2", "dp4"}},
          {encoder("encoder", 128, 2, 2, 64), {4, 8}, {"dp2", "dp4", "pp2,m4"}},
          {recurrent("lstm", LayerKind::lstm, 160, 48), {8, 32}, {"dp2", "dp4"}},
          {mlp({256, 128}, 600), {32, 256}, {"dp2", "dp4"}},
          {mlp({768, 512}, 3000), {32, 128}, {"dp2", "dp4"}},
          {small_gpt(128, 4, 2, 64, 512), {2, 8}, {"dp2", "tp2"}},
          {mlp({768, 768, 384}), {16, 128, 512}, {"dp2", "tp2", "dp1,m8"}},
          {recurrent("gru", LayerKind::gru, 192, 64), {16}, {"dp2", "dp4"}},
          {mlp({512, 512, 512, 512}), {32, 256}, {"dp2", "dp4,zero1", "pp2,m4", "pp4,m4"}}};
}

// The first seven have every constant in two models: large products, attention and operands of 16 bits, few rows,
// launches of many micro-batches, blocks of few rows, sequences in one kernel. Cells of several devices, which take
// three times as long as those of one, are with the first three and the next GPT model: two GPUs have measured these
// within two minutes.
std::vector<Probe> gpu_probes() {
  return {{mlp({4096, 4096}), {64, 1024, 8192}, {"dp2", "dp4", "dp8", "tp2"}},
          {small_gpt(512, 8, 4, 512, 8192), {4, 16}, {"dp2", "tp2", "pp2,m4"}},
          {mlp({512, 512, 512, 512, 512, 512}), {64, 4096}, {"dp2", "pp2,m4"}},
          {mlp({1024, 1024, 512}), {64, 1024, 8192}, {"dp1,m8"}},
          {encoder("encoder-256x4", 256, 4, 4, 64), {8, 64}, {"dp1,m4"}},
          {recurrent("lstm-192x64", LayerKind::lstm, 192, 64), {8, 512}, {}},
          {recurrent("gru-224x48", LayerKind::gru, 224, 48), {16, 512}, {}},
          {small_gpt(768, 12, 4, 1024, 50257), {2, 6}, {"dp2", "tp2"}},
          {mlp({8192, 2048}), {256, 4096}, {"dp2", "dp2,zero1"}},
          {mlp({256, 128, 64}), {64, 1024, 8192}, {"dp1,m8", "dp2", "dp4", "dp8"}},
          {encoder("encoder-192x4", 192, 3, 4, 96), {32, 256}, {"dp2", "dp2,zero1"}},
          {small_gpt(1024, 16, 2, 1024, 50257), {2, 8}, {"dp2", "tp2"}}};
}

}  // namespace amdahl
