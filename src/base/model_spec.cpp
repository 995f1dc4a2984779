#include "amdahl/model_spec.h"

#include <fmt/format.h>

#include "amdahl/units.h"

namespace amdahl {
namespace {

ModelSpec mlp(std::string name, int64_t input_width, const std::vector<int64_t>& hidden, double dropout,
              bool output_bias) {
  ModelSpec model{std::move(name), input_width, {}, LossKind::mse};
  for (int64_t units : hidden) model.layers.push_back({units, true, Activation::relu, dropout});
  model.layers.push_back({3, output_bias, Activation::none, 0.0});
  return model;
}

}  // namespace

int64_t ModelSpec::num_parameters() const {
  int64_t total = 0;
  for (size_t i = 0; i < layers.size(); ++i)
    total += layers[i].units * layer_input_width(i) + (layers[i].bias ? layers[i].units : 0);
  return total;
}

double ModelSpec::step_flops(int64_t batch) const {
  double flops = 0;
  for (size_t i = 0; i < layers.size(); ++i) {
    const double gemm = 2.0 * static_cast<double>(batch) * static_cast<double>(layers[i].units) *
                        static_cast<double>(layer_input_width(i));
    flops += i == 0 ? 2 * gemm : 3 * gemm;  // forward, weight gradient, and input gradient above the first layer
  }
  return flops;
}

int64_t ModelSpec::activation_bytes(int64_t batch) const {
  int64_t floats = 0;
  for (const DenseSpec& layer : layers) floats += 2 * layer.units;
  return floats * batch * static_cast<int64_t>(sizeof(float));
}

void ModelSpec::validate() const {
  const auto refuse = [&](const std::string& what, const std::string& remedy) {
    throw Error(Cause::usage, fmt::format("model '{}': {}", name, what), remedy);
  };
  // 2^24 x 2^24 weights per layer and 1,024 layers are far beyond any memory, and every count still fits 64 bits.
  constexpr int64_t kMaxWidth = int64_t{1} << 24;
  constexpr size_t kMaxLayers = 1024;
  const std::string at_most = fmt::format("at most {}", with_thousands(kMaxWidth));
  if (input_width <= 0) refuse(fmt::format("input_width is {}", input_width), "give a width of at least 1");
  if (input_width > kMaxWidth) refuse(fmt::format("input_width is {}", input_width), at_most);
  if (layers.size() > kMaxLayers) refuse(fmt::format("it has {} layers", layers.size()), "at most 1,024 layers");
  if (layers.empty()) refuse("it has no layers", "list at least one layer with its units");
  for (size_t i = 0; i < layers.size(); ++i) {
    const DenseSpec& layer = layers[i];
    if (layer.units <= 0) refuse(fmt::format("layer {} has {} units", i, layer.units), "give at least 1 unit");
    if (layer.units > kMaxWidth) refuse(fmt::format("layer {} has {} units", i, layer.units), at_most);
    if (!(layer.dropout >= 0.0 && layer.dropout < 1.0))
      refuse(fmt::format("layer {} has dropout {}", i, layer.dropout), "give a probability in [0, 1)");
    if (layer.dropout > 0 && layer.activation == Activation::none)
      refuse(fmt::format("layer {} has dropout but no activation", i),
             "set its activation to \"relu\" or dropout to 0");
  }
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

ModelSpec fit_to_data(ModelSpec model, int64_t input_width, int64_t output_width, LossKind loss) {
  model.input_width = input_width;
  model.layers.back().units = output_width;
  model.loss = loss;
  return model;
}

}  // namespace amdahl
