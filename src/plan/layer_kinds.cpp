#include "plan/layer_kinds.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "plan/kind_parts.h"

namespace amdahl {
namespace {

constexpr int64_t kVocabularyTile = 128;

std::string no_problem(const LayerSpec& layer, const Shape& input) {
  (void)layer;
  return input.empty() ? "its input has no dimension" : "";
}
std::vector<ParameterSpec> no_parameters(const LayerSpec&, const Shape&) { return {}; }

// Dense.
Shape dense_output(const LayerSpec& layer, const Shape&) { return {layer.units}; }
std::vector<ParameterSpec> dense_parameters(const LayerSpec& layer, const Shape& input) {
  std::vector<ParameterSpec> all{{"weight", {layer.units, count_of(input)}, Initial::he_normal}};
  if (layer.bias) all.push_back(zeros("bias", {layer.units}));
  return all;
}
double dense_flops(const LayerSpec& layer, const Shape& input) { return gemm_flops(1, count_of(input), layer.units); }

// Embedding and projection of a sequence.
int64_t position_steps(const LayerSpec& layer, const Shape& input) {
  return layer.max_steps > 0 ? layer.max_steps : input[0];
}
std::string positions_problem(const LayerSpec& layer, const Shape& input) {
  if (layer.positions && layer.max_steps > 0 && layer.max_steps < input[0])
    return fmt::format("its input has {} steps, and it has positions for {}", input[0], layer.max_steps);
  return "";
}
std::string embedding_problem(const LayerSpec& layer, const Shape& input) {
  if (std::string text = needs(layer, input, 1, "[steps] of tokens"); !text.empty()) return text;
  if (layer.vocabulary < 2) return fmt::format("its vocabulary is {}", layer.vocabulary);
  return positions_problem(layer, input);
}
Shape embedding_output(const LayerSpec& layer, const Shape& input) { return {input[0], layer.units}; }
std::vector<ParameterSpec> embedding_parameters(const LayerSpec& layer, const Shape& input) {
  std::vector<ParameterSpec> all{normal("weight", {layer.vocabulary, layer.units})};
  all[0].padded_rows = padded_vocabulary(layer.vocabulary);
  if (layer.positions) all.push_back(normal("positions", {position_steps(layer, input), layer.units}));
  if (layer.token_types > 0) all.push_back(normal("token_types", {layer.token_types, layer.units}));
  return all;
}
std::string projection_problem(const LayerSpec& layer, const Shape& input) {
  if (std::string text = needs(layer, input, 2, "[steps, features]"); !text.empty()) return text;
  return positions_problem(layer, input);
}
std::vector<ParameterSpec> projection_parameters(const LayerSpec& layer, const Shape& input) {
  std::vector<ParameterSpec> all{normal("weight", {layer.units, input[1]}, 1 / std::sqrt(as_double(input[1]))),
                                 zeros("bias", {layer.units})};
  if (layer.positions) all.push_back(normal("positions", {position_steps(layer, input), layer.units}));
  return all;
}
double projection_flops(const LayerSpec& layer, const Shape& input) {
  return gemm_flops(input[0], input[1], layer.units);
}

Shape pool_output(const LayerSpec&, const Shape& input) { return {input[1]}; }

// LSTM and GRU, in PyTorch's definition with two biases.
int64_t gates_of(const LayerSpec& layer) { return layer.kind == LayerKind::lstm ? 4 : 3; }
std::string recurrent_problem(const LayerSpec& layer, const Shape& input) {
  return needs(layer, input, 2, "[steps, features]");
}
Shape recurrent_output(const LayerSpec& layer, const Shape& input) {
  return layer.last_step_only ? Shape{layer.units} : Shape{input[0], layer.units};
}
std::vector<ParameterSpec> recurrent_parameters(const LayerSpec& layer, const Shape& input) {
  const int64_t rows = gates_of(layer) * layer.units;
  const double bound = 1 / std::sqrt(as_double(layer.units));
  const auto drawn = [&](const char* name, Shape shape) {
    return ParameterSpec{name, std::move(shape), Initial::uniform, bound};
  };
  return {drawn("weight_input", {rows, input[1]}), drawn("weight_hidden", {rows, layer.units}),
          drawn("bias_input", {rows}), drawn("bias_hidden", {rows})};
}
double recurrent_flops(const LayerSpec& layer, const Shape& input) {
  return gemm_flops(input[0], input[1] + layer.units, gates_of(layer) * layer.units);
}

// Images.
int64_t strided(int64_t extent, int64_t stride) { return (extent - 1) / stride + 1; }
std::string window_problem(const LayerSpec& layer) {
  if (layer.kernel < 1 || layer.kernel % 2 == 0) return fmt::format("its kernel is {}, not odd", layer.kernel);
  return layer.stride < 1 ? fmt::format("its stride is {}", layer.stride) : "";
}
std::string conv_problem(const LayerSpec& layer, const Shape& input) {
  if (std::string text = needs(layer, input, 3, "[height, width, channels]"); !text.empty()) return text;
  return window_problem(layer);
}
Shape conv_output(const LayerSpec& layer, const Shape& input) {
  return {strided(input[0], layer.stride), strided(input[1], layer.stride), layer.units};
}
int64_t pixels_of(const Shape& shape) { return shape[0] * shape[1]; }
ParameterSpec filter(std::string name, int64_t out, int64_t kernel, int64_t in) {
  const double fan_out = as_double(kernel * kernel * out);
  return normal(std::move(name), {out, kernel, kernel, in}, std::sqrt(2 / fan_out));
}
std::vector<ParameterSpec> conv_parameters(const LayerSpec& layer, const Shape& input) {
  return {filter("conv.weight", layer.units, layer.kernel, input[2]), ones("norm.weight", {layer.units}),
          zeros("norm.bias", {layer.units})};
}
double conv_flops(const LayerSpec& layer, const Shape& input) {
  return gemm_flops(pixels_of(conv_output(layer, input)), layer.kernel * layer.kernel * input[2], layer.units);
}
std::vector<ParameterSpec> residual_parameters(const LayerSpec& layer, const Shape& input) {
  std::vector<ParameterSpec> all;
  const auto add = [&](const std::string& conv, const std::string& norm, int64_t out, int64_t kernel, int64_t in) {
    all.push_back(filter(conv + ".weight", out, kernel, in));
    all.push_back(ones(norm + ".weight", {out}));
    all.push_back(zeros(norm + ".bias", {out}));
  };
  const int64_t c = layer.units, b = layer.bottleneck;
  if (b > 0)
    add("conv1", "norm1", b, 1, input[2]), add("conv2", "norm2", b, 3, b), add("conv3", "norm3", c, 1, b);
  else
    add("conv1", "norm1", c, 3, input[2]), add("conv2", "norm2", c, 3, c);
  if (has_shortcut(layer, input)) add("shortcut", "shortcut_norm", c, 1, input[2]);
  return all;
}
double residual_flops(const LayerSpec& layer, const Shape& input) {
  const int64_t pixels = pixels_of(conv_output(layer, input)), c = layer.units, b = layer.bottleneck;
  const double chain =
      b > 0 ? gemm_flops(pixels_of(input), input[2], b) + gemm_flops(pixels, 9 * b, b) + gemm_flops(pixels, b, c)
            : gemm_flops(pixels, 9 * input[2], c) + gemm_flops(pixels, 9 * c, c);
  return chain + (has_shortcut(layer, input) ? gemm_flops(pixels, input[2], c) : 0);
}
std::string image_problem(const LayerSpec&, const Shape& input) {
  return input.size() == 3 ? "" : fmt::format("its input is {}, not [height, width, channels]", shape_text(input));
}
Shape channels_output(const LayerSpec&, const Shape& input) { return {input[2]}; }
std::string max_pool_problem(const LayerSpec& layer, const Shape& input) {
  constexpr int64_t kMostKernel = 15;  // the place of a pixel within its window is one byte
  if (std::string text = image_problem(layer, input); !text.empty()) return text;
  if (layer.kernel > kMostKernel) return fmt::format("its kernel is {}, at most {}", layer.kernel, kMostKernel);
  return window_problem(layer);
}
Shape max_pool_output(const LayerSpec& layer, const Shape& input) {
  return {strided(input[0], layer.stride), strided(input[1], layer.stride), input[2]};
}

// Classifier of tokens.
std::string head_problem(const LayerSpec& layer, const Shape& input) {
  if (input.size() != 2) return fmt::format("its input is {}, not [steps, units]", shape_text(input));
  return layer.vocabulary < 2 ? fmt::format("its vocabulary is {}", layer.vocabulary) : "";
}
Shape head_output(const LayerSpec& layer, const Shape& input) { return {input[0], layer.vocabulary}; }
std::vector<ParameterSpec> head_parameters(const LayerSpec& layer, const Shape& input) {
  if (layer.tied) return {};
  ParameterSpec weight = normal("weight", {layer.vocabulary, input[1]});
  weight.padded_rows = padded_vocabulary(layer.vocabulary);
  return {weight};
}
double head_flops(const LayerSpec& layer, const Shape& input) {
  return gemm_flops(input[0], input[1], padded_vocabulary(layer.vocabulary));
}

}  // namespace

int64_t count_of(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

bool LayerField::is_written(const LayerSpec& layer) const {
  const LayerSpec standard;
  if (!is_omitted) return true;
  if (integer) return layer.*integer != standard.*integer;
  if (boolean) return layer.*boolean != standard.*boolean;
  if (number) return layer.*number != standard.*number;
  return chosen(layer) != chosen(standard);
}

std::string sequence_problem(const LayerSpec&, const Shape& input) {
  return input.size() == 2 ? "" : fmt::format("its input is {}, not [steps, units]", shape_text(input));
}

std::string shape_text(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

int64_t padded_vocabulary(int64_t vocabulary) {
  return (vocabulary + kVocabularyTile - 1) / kVocabularyTile * kVocabularyTile;
}

int64_t head_chunk(const LayerSpec& head, int64_t tokens, int64_t token_bytes) {
  constexpr int64_t kMostBytes = int64_t{1} << 30, kFewestTokens = 1024, kTile = 128;
  if (head.chunk_rows > 0) return std::min(head.chunk_rows, tokens);
  const int64_t most = std::max(kMostBytes / token_bytes / kTile * kTile, kFewestTokens);
  if (tokens <= most) return tokens;
  const int64_t chunks = (tokens + most - 1) / most;
  return ((tokens + chunks - 1) / chunks + kTile - 1) / kTile * kTile;
}

const std::vector<LayerKindRow>& layer_kinds() {
  using L = LayerSpec;
  static const std::vector<LayerKindRow> rows{
      {LayerKind::dense,
       "dense",
       "fully connected",
       {required("units", &L::units), boolean("bias", &L::bias)},
       no_problem,
       dense_output,
       dense_parameters,
       dense_flops},
      {LayerKind::embedding,
       "embedding",
       "table of token vectors, and learned positions",
       {required("units", &L::units), required("vocabulary", &L::vocabulary, 2), boolean("positions", &L::positions),
        integer("max_steps", &L::max_steps), integer("token_types", &L::token_types),
        omitted(integer("end_token", &L::end_token, -1))},
       embedding_problem,
       embedding_output,
       embedding_parameters,
       no_flops},
      {LayerKind::projection,
       "projection",
       "dense layer of every step, and learned positions",
       {required("units", &L::units), boolean("positions", &L::positions), integer("max_steps", &L::max_steps)},
       projection_problem,
       embedding_output,
       projection_parameters,
       projection_flops},
      block_row(),
      norm_row(),
      {LayerKind::pool,
       "pool",
       "mean over the steps, or one of them",
       {choice<&L::pooling>("pooling", {"mean", "first", "last"})},
       sequence_problem,
       pool_output,
       no_parameters,
       no_flops},
      {LayerKind::lstm,
       "lstm",
       "long short-term memory",
       {required("units", &L::units), boolean("last_step_only", &L::last_step_only)},
       recurrent_problem,
       recurrent_output,
       recurrent_parameters,
       recurrent_flops},
      {LayerKind::gru,
       "gru",
       "gated recurrent unit",
       {required("units", &L::units), boolean("last_step_only", &L::last_step_only)},
       recurrent_problem,
       recurrent_output,
       recurrent_parameters,
       recurrent_flops},
      {LayerKind::conv,
       "conv",
       "convolution, batch normalisation, ReLU",
       {required("units", &L::units), integer("kernel", &L::kernel, 1), integer("stride", &L::stride, 1)},
       conv_problem,
       conv_output,
       conv_parameters,
       conv_flops},
      {LayerKind::residual_block,
       "residual_block",
       "two convolutions, or three with a bottleneck, and a shortcut",
       {required("units", &L::units), integer("stride", &L::stride, 1), omitted(integer("bottleneck", &L::bottleneck))},
       conv_problem,
       conv_output,
       residual_parameters,
       residual_flops},
      {LayerKind::average_pool,
       "average_pool",
       "mean over the pixels",
       {},
       image_problem,
       channels_output,
       no_parameters,
       no_flops},
      {LayerKind::token_head,
       "token_head",
       "logits of every step",
       {required("vocabulary", &L::vocabulary, 2), boolean("tied", &L::tied),
        omitted(integer("chunk_rows", &L::chunk_rows))},
       head_problem,
       head_output,
       head_parameters,
       head_flops},
      {LayerKind::max_pool,
       "max_pool",
       "largest pixel of each window",
       {integer("kernel", &L::kernel, 1), integer("stride", &L::stride, 1)},
       max_pool_problem,
       max_pool_output,
       no_parameters,
       no_flops},
  };
  return rows;
}

const LayerKindRow& row_of(LayerKind kind) { return layer_kinds()[static_cast<size_t>(kind)]; }

}  // namespace amdahl
