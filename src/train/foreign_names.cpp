#include "train/foreign_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <span>
#include <string_view>

#include "plan/block_kind.h"
#include "train/named_weights.h"

namespace amdahl {
namespace {

/// Our tensor without ".weight" or ".bias", and theirs; of several their rows follow one another in ours.
struct NameRow {
  std::string_view ours;
  std::vector<std::string_view> theirs;
};

struct Family {
  std::string_view prefix{};  // that a file of the model without its head lacks
  std::string_view block{};   // of the names in a block
  std::vector<NameRow> in_block{};
  std::string_view table{}, positions{}, token_types{}, first_norm{}, last_norm{}, dense{}, head{};
  bool transposes = false;  // matrices of blocks
};

const Family& rotary_family() {
  static const Family family{
      .prefix = "model.",
      .block = "model.layers.{}.",
      .in_block = {{"norm1", {"input_layernorm"}},
                   {"attention.qkv", {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"}},
                   {"attention.q_norm", {"self_attn.q_norm"}},
                   {"attention.k_norm", {"self_attn.k_norm"}},
                   {"attention.out", {"self_attn.o_proj"}},
                   {"norm2", {"post_attention_layernorm"}},
                   {"mlp.up", {"mlp.gate_proj", "mlp.up_proj"}},
                   {"mlp.down", {"mlp.down_proj"}}},
      .table = "model.embed_tokens.weight",
      .last_norm = "model.norm",
      .head = "lm_head"};
  return family;
}

const Family& gpt2_family() {
  static const Family family{.prefix = "transformer.",
                             .block = "transformer.h.{}.",
                             .in_block = {{"norm1", {"ln_1"}},
                                          {"attention.qkv", {"attn.c_attn"}},
                                          {"attention.out", {"attn.c_proj"}},
                                          {"norm2", {"ln_2"}},
                                          {"mlp.up", {"mlp.c_fc"}},
                                          {"mlp.down", {"mlp.c_proj"}}},
                             .table = "transformer.wte.weight",
                             .positions = "transformer.wpe.weight",
                             .last_norm = "transformer.ln_f",
                             .head = "lm_head",
                             .transposes = true};
  return family;
}

const Family& bert_family() {
  static const Family family{
      .prefix = "bert.",
      .block = "bert.encoder.layer.{}.",
      .in_block = {{"attention.qkv", {"attention.self.query", "attention.self.key", "attention.self.value"}},
                   {"attention.out", {"attention.output.dense"}},
                   {"norm1", {"attention.output.LayerNorm"}},
                   {"mlp.up", {"intermediate.dense"}},
                   {"mlp.down", {"output.dense"}},
                   {"norm2", {"output.LayerNorm"}}},
      .table = "bert.embeddings.word_embeddings.weight",
      .positions = "bert.embeddings.position_embeddings.weight",
      .token_types = "bert.embeddings.token_type_embeddings.weight",
      .first_norm = "bert.embeddings.LayerNorm",
      .dense = "bert.pooler.dense"};
  return family;
}

const Family& family_of(const ModelSpec& model) {
  const auto& layers = model.layers;
  const auto is = [&](size_t i, LayerKind kind) { return i < layers.size() && layers[i].kind == kind; };
  const auto block = std::find_if(layers.begin(), layers.end(),
                                  [](const LayerSpec& l) { return l.kind == LayerKind::transformer_block; });
  const size_t blocks = static_cast<size_t>(std::count_if(
      layers.begin(), layers.end(), [&](const LayerSpec& l) { return block != layers.end() && l == *block; }));
  if (is(0, LayerKind::embedding) && block != layers.end()) {
    const bool decodes = layers.size() == blocks + 3 && is(blocks + 1, LayerKind::layer_norm) &&
                         is(blocks + 2, LayerKind::token_head) && block->causal && !block->post_norm;
    const bool plain = block->rope_theta == 0 && block->norm == NormKind::layer && block->mlp == MlpKind::gelu &&
                       block->qkv_bias && block->out_bias && block->mlp_bias && !block->qk_norm &&
                       block->head_dim == 0 && block_widths(*block).kv_heads == block->heads && layers[0].positions;
    if (decodes && block->rope_theta > 0 && block->norm == NormKind::rms && block->mlp != MlpKind::gelu &&
        !layers[0].positions)
      return rotary_family();
    if (decodes && plain) return gpt2_family();
    if (layers.size() == blocks + 4 && is(1, LayerKind::layer_norm) && is(blocks + 2, LayerKind::pool) &&
        is(blocks + 3, LayerKind::dense) && plain && block->post_norm && !block->causal && layers[0].token_types > 0)
      return bert_family();
  }
  throw Error(Cause::usage,
              fmt::format("model '{}' is of no family whose tensors Hugging Face's transformers name", model.name),
              "a model like llama, qwen2, qwen3, mistral, gpt2 or bert, or own names");
}

/// Rows of our tensor that each of theirs has.
std::vector<int64_t> rows_of(const LayerSpec& layer, std::string_view ours, size_t parts, int64_t rows) {
  if (parts == 1) return {rows};
  const BlockWidths widths = block_widths(layer);
  if (ours == "attention.qkv") {
    const int64_t keys = widths.kv_heads * widths.head_dim;
    return {widths.attended(), keys, keys};
  }
  return {widths.hidden, widths.hidden};
}

std::string full_name(const Family& family, const LayerSpec& layer, size_t index, std::string_view tensor) {
  const std::string ending(tensor.substr(tensor.rfind('.') + 1));
  switch (layer.kind) {
    case LayerKind::embedding:
      return std::string(ending == "weight"      ? family.table
                         : ending == "positions" ? family.positions
                                                 : family.token_types);
    case LayerKind::layer_norm:
      return fmt::format("{}.{}", index == 1 ? family.first_norm : family.last_norm, ending);
    case LayerKind::token_head:
      return fmt::format("{}.{}", family.head, ending);
    default:
      return fmt::format("{}.{}", family.dense, ending);
  }
}

WeightPart part_of(const Family& family, std::string name, std::vector<int64_t> shape, int64_t begin, bool transposed) {
  const bool has_prefix = name.starts_with(family.prefix);
  std::string short_name = has_prefix ? name.substr(family.prefix.size()) : name;
  if (transposed) std::reverse(shape.begin(), shape.end());
  return {std::move(name), std::move(short_name), std::move(shape), begin, transposed};
}

}  // namespace

int64_t WeightPart::floats() const {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

std::vector<WeightPart> own_parts(const ModelSpec& model) {
  std::vector<WeightPart> parts;
  for (WeightRange& range : weight_ranges(model))
    parts.push_back({range.name, range.name, std::move(range.shape), range.begin});
  return parts;
}

std::vector<WeightPart> foreign_parts(const ModelSpec& model) {
  const Family& family = family_of(model);
  std::vector<WeightPart> parts;
  size_t block = 0, last = 0;
  for (const WeightRange& range : weight_ranges(model)) {  // "layers.INDEX.TENSOR"
    const size_t dot = range.name.find('.', 7), layer = static_cast<size_t>(std::stoul(range.name.substr(7)));
    const std::string_view tensor = std::string_view(range.name).substr(dot + 1);
    const LayerSpec& spec = model.layers[layer];
    if (spec.kind != LayerKind::transformer_block) {
      parts.push_back(part_of(family, full_name(family, spec, layer, tensor), range.shape, range.begin, false));
      continue;
    }
    if (last != layer && last > 0) ++block;
    last = layer;
    const std::string_view ours = tensor.substr(0, tensor.rfind('.')), ending = tensor.substr(tensor.rfind('.'));
    const auto row = std::find_if(family.in_block.begin(), family.in_block.end(),
                                  [&](const NameRow& each) { return each.ours == ours; });
    const std::vector<int64_t> rows = rows_of(spec, ours, row->theirs.size(), range.shape[0]);
    int64_t begin = range.begin;
    for (size_t i = 0; i < rows.size(); ++i) {
      std::vector<int64_t> shape = range.shape;
      shape[0] = rows[i];
      const std::string name =
          fmt::format("{}{}{}", fmt::format(fmt::runtime(family.block), block), row->theirs[i], ending);
      parts.push_back(part_of(family, name, shape, begin, family.transposes && shape.size() == 2));
      begin += parts.back().floats();
    }
  }
  return parts;
}

std::vector<NamedArray> arrays_of(const std::vector<WeightPart>& parts, const std::vector<float>& parameters) {
  std::vector<NamedArray> arrays;
  for (const WeightPart& part : parts) {
    const float* from = parameters.data() + part.begin;
    NamedArray array{part.name, part.shape, {from, from + part.floats()}};
    if (part.transposed)
      for (int64_t row = 0; row < part.shape[1]; ++row)
        for (int64_t column = 0; column < part.shape[0]; ++column)
          array.values[static_cast<size_t>(column * part.shape[1] + row)] = from[row * part.shape[0] + column];
    arrays.push_back(std::move(array));
  }
  return arrays;
}

void place_part(const WeightPart& part, const std::vector<float>& values, std::vector<float>& parameters) {
  float* to = parameters.data() + part.begin;
  if (!part.transposed) {
    std::copy(values.begin(), values.end(), to);
    return;
  }
  for (int64_t row = 0; row < part.shape[1]; ++row)
    for (int64_t column = 0; column < part.shape[0]; ++column)
      to[row * part.shape[0] + column] = values[static_cast<size_t>(column * part.shape[1] + row)];
}

}  // namespace amdahl
