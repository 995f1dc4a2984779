#include "amdahl/plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "amdahl/error.h"
#include "plan/layer_kinds.h"

namespace amdahl {
namespace {

ModelSpec mlp(std::string name, int64_t input_width, const std::vector<int64_t>& hidden, double dropout,
              bool output_bias) {
  ModelSpec model{std::move(name), input_width, {}, LossKind::mse};
  for (int64_t units : hidden) model.layers.push_back({units, true, Activation::relu, dropout});
  model.layers.push_back({3, output_bias, Activation::none, 0.0});
  return model;
}

LayerSpec of_kind(LayerKind kind, int64_t units = 0) {
  LayerSpec layer;
  layer.kind = kind;
  layer.units = units;
  layer.activation = Activation::none;
  return layer;
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

LayerSpec token_embedding(int64_t units, int64_t vocabulary, int64_t max_steps, int64_t token_types) {
  LayerSpec layer = of_kind(LayerKind::embedding, units);
  layer.vocabulary = vocabulary;
  layer.max_steps = max_steps;
  layer.token_types = token_types;
  return layer;
}

ModelSpec gpt2(std::string name, int64_t units, int64_t heads, size_t blocks) {
  constexpr int64_t kSteps = 1024, kVocabulary = 50'257;
  std::vector<LayerSpec> layers{token_embedding(units, kVocabulary, kSteps, 0)};
  layers.insert(layers.end(), blocks, block(units, heads, true, false));
  layers.push_back(of_kind(LayerKind::layer_norm));
  LayerSpec head = of_kind(LayerKind::token_head);
  head.vocabulary = kVocabulary;
  head.tied = true;
  layers.push_back(head);
  return {std::move(name), kSteps, std::move(layers), LossKind::softmax_cross_entropy, {kSteps}};
}

// BERT's encoder with its pooler, without the classifier of a task: the pooler's 768 outputs are the model's.
ModelSpec bert_base() {
  constexpr int64_t kUnits = 768, kSteps = 512;
  std::vector<LayerSpec> layers{token_embedding(kUnits, 30'522, kSteps, 2), of_kind(LayerKind::layer_norm)};
  layers.insert(layers.end(), 12, block(kUnits, 12, false, true));
  LayerSpec first = of_kind(LayerKind::pool);
  first.pooling = Pooling::first;
  layers.push_back(first);
  layers.push_back(output_layer(kUnits));
  return {"bert-base", kSteps, std::move(layers), LossKind::mse, {kSteps}};
}

// ResNet for images of 32 x 32 pixels: a 3 x 3 convolution first, no max pooling.
ModelSpec resnet(std::string name, const std::vector<size_t>& blocks) {
  constexpr int64_t kPixels = 32, kChannels = 3, kClasses = 10;
  std::vector<LayerSpec> layers{of_kind(LayerKind::conv, 64)};
  int64_t units = 64;
  for (const size_t count : blocks) {
    for (size_t i = 0; i < count; ++i) {
      layers.push_back(of_kind(LayerKind::residual_block, units));
      layers.back().stride = i == 0 && units > 64 ? 2 : 1;
    }
    units *= 2;
  }
  layers.push_back(of_kind(LayerKind::average_pool));
  layers.push_back(output_layer(kClasses));
  return {std::move(name),
          kPixels * kPixels * kChannels,
          std::move(layers),
          LossKind::softmax_cross_entropy,
          {kPixels, kPixels, kChannels}};
}

template <class Refuse>
void check_head(const ModelSpec& model, size_t index, const Refuse& refuse) {
  const LayerSpec &head = model.layers[index], &first = model.layers.front();
  if (index + 1 != model.layers.size()) refuse("a token_head is not its last layer", "a token_head as last layer");
  if (model.loss != LossKind::softmax_cross_entropy)
    refuse("a token_head needs loss softmax_cross_entropy", "loss \"softmax_cross_entropy\"");
  if (!head.tied) return;
  if (first.kind != LayerKind::embedding || first.vocabulary != head.vocabulary ||
      first.units != model.layer_input_shape(index).back())
    refuse("its token_head is tied to an embedding that it does not have",
           "an embedding of the same vocabulary and units as first layer, or \"tied\": false");
}

}  // namespace

std::vector<int64_t> ModelSpec::layer_input_shape(size_t layer) const {
  Shape shape = input_shape.empty() ? Shape{input_width} : input_shape;
  for (size_t i = 0; i < layer; ++i) shape = row_of(layers[i].kind).output(layers[i], shape);
  return shape;
}

std::vector<int64_t> ModelSpec::layer_output_shape(size_t layer) const {
  return row_of(layers[layer].kind).output(layers[layer], layer_input_shape(layer));
}

int64_t ModelSpec::layer_input_width(size_t layer) const { return count_of(layer_input_shape(layer)); }
int64_t ModelSpec::layer_output_width(size_t layer) const { return count_of(layer_output_shape(layer)); }

int64_t ModelSpec::output_width() const {
  if (layers.empty()) return 0;
  return loss == LossKind::mse ? layer_output_width(layers.size() - 1) : layer_output_shape(layers.size() - 1).back();
}

int64_t ModelSpec::labels_per_row() const {
  const Shape shape = layer_output_shape(layers.size() - 1);
  return count_of(shape) / shape.back();
}

int64_t ModelSpec::target_width() const { return loss == LossKind::mse ? output_width() : labels_per_row(); }

int64_t ModelSpec::vocabulary() const {
  return !layers.empty() && layers.front().kind == LayerKind::embedding ? layers.front().vocabulary : 0;
}

bool ModelSpec::is_mlp() const {
  return std::all_of(layers.begin(), layers.end(), [](const LayerSpec& l) { return l.kind == LayerKind::dense; });
}

int64_t ModelSpec::num_parameters() const {
  int64_t total = 0;
  for (size_t i = 0; i < layers.size(); ++i)
    for (const ParameterSpec& parameter : parameters_of(layers[i], layer_input_shape(i)))
      total += parameter.num_parameters();
  return total;
}

void ModelSpec::validate() const {
  const auto refuse = [&](const std::string& what, const std::string& remedy) {
    throw Error(Cause::usage, fmt::format("model '{}': {}", name, what), remedy);
  };
  // 2^24 x 2^24 weights per layer and 1,024 layers are far beyond any memory, and every count still fits 64 bits.
  constexpr int64_t kMaxWidth = int64_t{1} << 24;
  constexpr size_t kMaxLayers = 1024;
  constexpr int64_t kMaxRow = int64_t{1} << 40;  // values of one row of the batch
  const std::string at_most = fmt::format("at most {}", with_thousands(kMaxWidth));
  if (input_width <= 0) refuse(fmt::format("input_width is {}", input_width), "give a width of at least 1");
  if (input_width > kMaxWidth) refuse(fmt::format("input_width is {}", input_width), at_most);
  if (layers.size() > kMaxLayers) refuse(fmt::format("it has {} layers", layers.size()), "at most 1,024 layers");
  if (layers.empty()) refuse("it has no layers", "list at least one layer with its units");
  Shape shape = input_shape.empty() ? Shape{input_width} : input_shape;
  if (count_of(shape) != input_width)
    refuse(fmt::format("input_width is {}, and the input shape {} has {} features", input_width, shape_text(shape),
                       count_of(shape)),
           "equal numbers");
  for (size_t i = 0; i < layers.size(); ++i) {
    const LayerSpec& layer = layers[i];
    const LayerKindRow& row = row_of(layer.kind);
    for (const LayerField& field : row.fields)
      if (field.integer && (layer.*field.integer < field.least || layer.*field.integer > kMaxWidth))
        refuse(field.name == "units" ? fmt::format("layer {} has {} units", i, layer.units)
                                     : fmt::format("layer {}: {} is {}", i, field.name, layer.*field.integer),
               layer.*field.integer > kMaxWidth ? at_most
               : field.name == "units"          ? std::string("give at least 1 unit")
                                                : fmt::format("at least {}", field.least));
    if (const std::string problem = row.problem(layer, shape); !problem.empty())
      refuse(fmt::format("layer {} ({}): {}", i, row.name, problem), "layers whose shapes chain");
    if (layer.kind != LayerKind::dense && i > 0 && layers[i - 1].kind == LayerKind::dense)
      refuse(fmt::format("layer {} ({}) follows a dense layer", i, row.name), "dense layers after all others");
    if (layer.kind == LayerKind::embedding && i > 0)
      refuse(fmt::format("layer {} is an embedding", i), "an embedding as first layer");
    if (layer.kind == LayerKind::token_head) check_head(*this, i, refuse);
    shape = row.output(layer, shape);
    if (count_of(shape) > kMaxRow)
      refuse(fmt::format("layer {} has {} outputs per row", i, shape_text(shape)), "fewer");
    if (layer.kind != LayerKind::dense) continue;
    if (layer.units <= 0) refuse(fmt::format("layer {} has {} units", i, layer.units), "give at least 1 unit");
    if (layer.units > kMaxWidth) refuse(fmt::format("layer {} has {} units", i, layer.units), at_most);
    if (!(layer.dropout >= 0.0 && layer.dropout < 1.0))
      refuse(fmt::format("layer {} has dropout {}", i, layer.dropout), "give a probability in [0, 1)");
    if (layer.dropout > 0 && layer.activation == Activation::none)
      refuse(fmt::format("layer {} has dropout but no activation", i),
             "set its activation to \"relu\" or dropout to 0");
  }
  if (layers.back().kind != LayerKind::dense && layers.back().kind != LayerKind::token_head)
    refuse(fmt::format("its last layer is of the kind {}", row_of(layers.back().kind).name),
           "a dense layer or a token_head as last layer");
  if (layers.back().kind != LayerKind::dense) return;
  if (layers.back().activation != Activation::none || layers.back().dropout > 0)
    refuse("the output layer has an activation or dropout", "set its activation to \"none\" and dropout to 0");
  if (loss == LossKind::softmax_cross_entropy && output_width() < 2)
    refuse("softmax cross-entropy needs at least 2 outputs", "use loss \"mse\" or more units");
}

const std::vector<ModelSpec>& model_presets() {
  // By the study's code: 54,403 and 2,021,379 parameters. By its text: 258,432 and 6,885,376, which input widths of 847
  // and 4,800 and an output layer without bias reproduce exactly.
  static const std::vector<ModelSpec> presets{
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
      bert_base(),
      resnet("resnet18", {2, 2, 2, 2}),
      resnet("resnet34", {3, 4, 6, 3}),
  };
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

ModelSpec fit_to_data(ModelSpec model, const std::vector<int64_t>& input_shape, int64_t output_width, LossKind loss) {
  if (input_shape.size() == 1 && model.input_shape.size() > 1)
    throw Error(Cause::usage,
                fmt::format("model '{}' takes {} per row, and the data have {} features per row", model.name,
                            shape_text(model.input_shape), input_shape[0]),
                "`window` for rows of a CSV file, or another model");
  model.input_width = count_of(input_shape);
  if (input_shape.size() > 1 || !model.input_shape.empty()) model.input_shape = input_shape;
  if (model.layers.back().kind == LayerKind::dense) model.layers.back().units = output_width;
  model.loss = loss;
  return model;
}

}  // namespace amdahl
