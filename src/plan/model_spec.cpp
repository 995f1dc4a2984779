#include "amdahl/plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "amdahl/error.h"
#include "plan/layer_kinds.h"

namespace amdahl {
namespace {

/// That layers can keep to the documents of a row.
template <class Refuse>
void check_documents(const ModelSpec& model, const Refuse& refuse) {
  const LayerSpec& first = model.layers.front();
  if (first.end_token < 0) return;
  if (first.end_token >= first.vocabulary)
    refuse(fmt::format("its end_token is {} in a vocabulary of {}", first.end_token, first.vocabulary),
           fmt::format("0 to {}", first.vocabulary - 1));
  for (size_t i = 1; i < model.layers.size(); ++i) {
    const LayerSpec& layer = model.layers[i];
    const bool is_causal = layer.kind == LayerKind::transformer_block && layer.causal;
    if (!is_causal && layer.kind != LayerKind::layer_norm && layer.kind != LayerKind::token_head)
      refuse(fmt::format("end_token {} divides rows into documents, and layer {} ({}) does not keep to them",
                         first.end_token, i, row_of(layer.kind).name),
             "causal transformer blocks and a token_head, or no end_token");
  }
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
  check_documents(*this, refuse);
  if (layers.back().kind != LayerKind::dense && layers.back().kind != LayerKind::token_head)
    refuse(fmt::format("its last layer is of the kind {}", row_of(layers.back().kind).name),
           "a dense layer or a token_head as last layer");
  if (layers.back().kind != LayerKind::dense) return;
  if (layers.back().activation != Activation::none || layers.back().dropout > 0)
    refuse("the output layer has an activation or dropout", "set its activation to \"none\" and dropout to 0");
  if (loss == LossKind::softmax_cross_entropy && output_width() < 2)
    refuse("softmax cross-entropy needs at least 2 outputs", "use loss \"mse\" or more units");
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
