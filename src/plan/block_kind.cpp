// Transformer block: two normalisations, attention, and two dense layers with an activation between them.
#include "plan/block_kind.h"

#include <cmath>

#include "plan/kind_parts.h"

namespace amdahl {
namespace {

std::string epsilon_problem(const LayerSpec& layer) {
  return layer.epsilon > 0 && layer.epsilon < 1 ? "" : fmt::format("its epsilon is {}", layer.epsilon);
}

std::string scaling_problem(const LayerSpec& layer) {
  const bool uses_steps = layer.rope_scaling == RopeScaling::llama3 || layer.rope_scaling == RopeScaling::yarn;
  const bool uses_attention = layer.rope_scaling == RopeScaling::yarn;
  if (layer.rope_scaling == RopeScaling::none) {
    if (layer.rope_factor != 1) return fmt::format("it has rope_factor {} and no rope_scaling", layer.rope_factor);
  } else if (!(layer.rope_factor >= 1) || !std::isfinite(layer.rope_factor)) {
    return fmt::format("its rope_factor is {}, not at least 1", layer.rope_factor);
  }
  if (!uses_steps && (layer.rope_original_steps != 0 || layer.rope_low != 0 || layer.rope_high != 0))
    return "it has rope_original_steps, rope_low or rope_high, which rope_scaling llama3 and yarn use";
  if (uses_steps && layer.rope_original_steps < 1)
    return fmt::format("its rope_original_steps is {}", layer.rope_original_steps);
  if (uses_steps && !(layer.rope_low > 0 && layer.rope_high > layer.rope_low && std::isfinite(layer.rope_high)))
    return fmt::format("its rope_low is {} and its rope_high {}, not above it and above 0", layer.rope_low,
                       layer.rope_high);
  if (!uses_attention && layer.rope_attention != 0) return "it has rope_attention, which rope_scaling yarn uses";
  if (!(layer.rope_attention >= 0) || !std::isfinite(layer.rope_attention))
    return fmt::format("its rope_attention is {}", layer.rope_attention);
  return "";
}

std::string rotation_problem(const LayerSpec& layer, int64_t head_dim) {
  if (layer.rope_theta == 0) {
    if (layer.rope_scaling != RopeScaling::none) return "it has a rope_scaling and no rope_theta";
    return scaling_problem(layer);
  }
  if (!(layer.rope_theta > 1) || !std::isfinite(layer.rope_theta))
    return fmt::format("its rope_theta is {}, not above 1", layer.rope_theta);
  if (head_dim % 2 != 0) return fmt::format("its head_dim is {}, and rotary positions need an even one", head_dim);
  return scaling_problem(layer);
}

std::string block_problem(const LayerSpec& layer, const Shape& input) {
  if (std::string text = needs(layer, input, 2, "[steps, units]"); !text.empty()) return text;
  if (input[1] != layer.units)
    return fmt::format("its input has {} features, and it has {} units", input[1], layer.units);
  if (layer.heads < 1 || (layer.head_dim == 0 && layer.units % layer.heads != 0))
    return fmt::format("its {} units cannot be divided among {} heads", layer.units, layer.heads);
  if (layer.kv_heads != 0 && (layer.kv_heads < 1 || layer.heads % layer.kv_heads != 0))
    return fmt::format("its {} heads cannot share {} heads of keys and values evenly", layer.heads, layer.kv_heads);
  constexpr int64_t kMostFeatures = int64_t{1} << 24;
  if (layer.heads * layer.head_dim > kMostFeatures)
    return fmt::format("its {} heads of {} features have more than {} together", layer.heads, layer.head_dim,
                       with_thousands(kMostFeatures));
  if (layer.window > 0 && !layer.causal) return fmt::format("it has a window of {} and is not causal", layer.window);
  if (layer.exact_gelu && layer.mlp == MlpKind::swiglu) return "it has exact_gelu, and its mlp swiglu has no GELU";
  if (std::string text = epsilon_problem(layer); !text.empty()) return text;
  return rotation_problem(layer, block_widths(layer).head_dim);
}

std::vector<ParameterSpec> block_parameters(const LayerSpec& layer, const Shape&) {
  const BlockWidths w = block_widths(layer);
  std::vector<ParameterSpec> all;
  const auto add_norm = [&](const std::string& name) {
    all.push_back(ones(name + ".weight", {w.units}));
    if (layer.norm == NormKind::layer) all.push_back(zeros(name + ".bias", {w.units}));
  };
  const auto add_dense = [&](const std::string& name, int64_t out, int64_t in, bool bias) {
    all.push_back(normal(name + ".weight", {out, in}));
    if (bias) all.push_back(zeros(name + ".bias", {out}));
  };
  add_norm("norm1");
  add_dense("attention.qkv", w.qkv(), w.units, layer.qkv_bias);
  if (layer.qk_norm)
    for (const char* name : {"attention.q_norm.weight", "attention.k_norm.weight"})
      all.push_back(ones(name, {w.head_dim}));
  add_dense("attention.out", w.units, w.attended(), layer.out_bias);
  add_norm("norm2");
  add_dense("mlp.up", w.up(), w.units, layer.mlp_bias);
  add_dense("mlp.down", w.units, w.hidden, layer.mlp_bias);
  return all;
}

double block_flops(const LayerSpec& layer, const Shape& input) {
  const BlockWidths w = block_widths(layer);
  // Scores and weighted values: pairs that the causal mask or the window leaves out are counted, as is customary.
  return 2 * as_double(input[0]) * as_double(w.dense_weights()) + 2 * gemm_flops(input[0], input[0], w.attended());
}

std::string norm_problem(const LayerSpec& layer, const Shape& input) {
  if (std::string text = sequence_problem(layer, input); !text.empty()) return text;
  return epsilon_problem(layer);
}
std::vector<ParameterSpec> norm_parameters(const LayerSpec& layer, const Shape& input) {
  std::vector<ParameterSpec> all{ones("weight", {input[1]})};
  if (layer.norm == NormKind::layer) all.push_back(zeros("bias", {input[1]}));
  return all;
}

std::vector<LayerField> norm_fields() {
  return {omitted(choice<&LayerSpec::norm>("norm", {"layer", "rms"})), omitted(number("epsilon", &LayerSpec::epsilon))};
}

std::vector<LayerField> block_fields() {
  using L = LayerSpec;
  std::vector<LayerField> fields{required("units", &L::units), required("heads", &L::heads),
                                 boolean("causal", &L::causal), boolean("post_norm", &L::post_norm)};
  for (LayerField& field : norm_fields()) fields.push_back(std::move(field));
  for (LayerField& field : std::vector<LayerField>{
           integer("kv_heads", &L::kv_heads), integer("head_dim", &L::head_dim), integer("hidden", &L::hidden),
           choice<&L::mlp>("mlp", {"gelu", "swiglu", "geglu"}), boolean("exact_gelu", &L::exact_gelu),
           boolean("qkv_bias", &L::qkv_bias), boolean("out_bias", &L::out_bias), boolean("mlp_bias", &L::mlp_bias),
           boolean("qk_norm", &L::qk_norm), integer("window", &L::window), number("rope_theta", &L::rope_theta),
           choice<&L::rope_scaling>("rope_scaling", {"none", "linear", "llama3", "yarn"}),
           number("rope_factor", &L::rope_factor), integer("rope_original_steps", &L::rope_original_steps),
           number("rope_low", &L::rope_low), number("rope_high", &L::rope_high),
           number("rope_attention", &L::rope_attention)})
    fields.push_back(omitted(std::move(field)));
  return fields;
}

}  // namespace

BlockWidths block_widths(const LayerSpec& layer) {
  BlockWidths widths{layer.units, layer.heads, layer.kv_heads, layer.head_dim, layer.hidden};
  if (widths.kv_heads == 0) widths.kv_heads = layer.heads;
  if (widths.head_dim == 0) widths.head_dim = layer.units / layer.heads;
  if (widths.hidden == 0) widths.hidden = 4 * layer.units;
  widths.is_gated = layer.mlp != MlpKind::gelu;
  return widths;
}

LayerKindRow block_row() {
  return {LayerKind::transformer_block,
          "transformer_block",
          "attention and two dense layers with GELU, or gated ones",
          block_fields(),
          block_problem,
          same_shape,
          block_parameters,
          block_flops};
}

LayerKindRow norm_row() {
  return {LayerKind::layer_norm, "layer_norm", "normalisation of every step", norm_fields(), norm_problem, same_shape,
          norm_parameters,       no_flops};
}

}  // namespace amdahl
