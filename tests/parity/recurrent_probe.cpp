// Writes one random model with recurrent layers as a problem for torch_recurrent_test.py, and what our CPU backend
// makes of it.
//
// usage: recurrent_probe INPUT.json OURS.json ROWS SEED. The model is two recurrent layers, the second of which gives
// its last step or all steps, and a dense layer. OURS.json: {"loss": number, "gradients": per layer {tensor: numbers}}.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "comm/world.h"
#include "train/trainer.h"

namespace amdahl {
namespace {

using nlohmann::json;

ModelSpec random_recurrent_model(std::mt19937_64& generator) {
  const auto up_to = [&](int64_t most) { return std::uniform_int_distribution<int64_t>(1, most)(generator); };
  ModelSpec model;
  model.name = "random";
  model.input_shape = {up_to(15), up_to(30)};
  model.input_width = count_of(model.input_shape);
  for (int i = 0; i < 2; ++i) {
    LayerSpec layer;
    layer.kind = up_to(2) == 1 ? LayerKind::lstm : LayerKind::gru;
    layer.units = up_to(60);
    layer.last_step_only = i == 1 && up_to(3) > 1;
    model.layers.push_back(layer);
  }
  LayerSpec last;
  last.units = 1 + up_to(5);
  last.activation = Activation::none;
  model.layers.push_back(last);
  model.loss = LossKind::mse;
  return model;
}

std::vector<float> normals(int64_t count, std::mt19937_64& generator) {
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = normal(generator);
  return values;
}

/// Per layer, the values of its tensors by name.
json by_tensor(const ParameterLayout& layout, const std::vector<float>& all) {
  json layers = json::array();
  for (const LayerSlice& layer : layout.layers) {
    json tensors;
    for (const TensorSlice& tensor : layer.tensors) {
      const auto first = all.begin() + tensor.begin;
      tensors[tensor.spec.name] = std::vector<float>(first, first + tensor.spec.num_parameters());
    }
    layers.push_back(tensors);
  }
  return layers;
}

/// Random values for every parameter, biases too: initialisation leaves those of dense layers zero.
std::vector<float> random_parameters(const ParameterLayout& layout, std::mt19937_64& generator) {
  std::vector<float> all(static_cast<size_t>(layout.num_floats), 0.0f);
  for (const LayerSlice& layer : layout.layers)
    for (const TensorSlice& tensor : layer.tensors)
      for (int64_t i = 0; i < tensor.spec.num_parameters(); ++i)
        all[static_cast<size_t>(tensor.begin + i)] = std::uniform_real_distribution<float>(-0.4f, 0.4f)(generator);
  return all;
}

int run_recurrent(char** arguments) {
  const int64_t rows = std::atoll(arguments[3]);
  const auto seed = static_cast<uint64_t>(std::atoll(arguments[4]));
  std::mt19937_64 generator(seed);
  const ModelSpec spec = random_recurrent_model(generator);
  const auto device = std::move(make_cpu_devices(1).front());
  const auto ops = make_cpu_ops(*device, {});
  const auto stream = device->make_stream("compute");
  const Deadline deadline = Deadline::after_seconds(30);
  Model model(spec, *device, *ops, {.max_rows = rows, .seed = seed});
  model.initialise(*stream, deadline);

  const auto parameters = random_parameters(model.layout(), generator);
  const auto inputs = normals(rows * spec.input_width, generator);
  const auto targets = normals(rows * spec.output_width(), generator);
  const auto upload = [&](const std::vector<float>& values, void* to) {
    device->copy_in(*stream, to, values.data(), values.size() * sizeof(float));
  };
  const auto features = device->allocate(inputs.size() * sizeof(float));
  const auto wanted = device->allocate(targets.size() * sizeof(float));
  upload(parameters, model.params());
  upload(inputs, features->data());
  upload(targets, wanted->data());
  const BatchView batch{features->as<float>(), wanted->as<float>(), rows, 0, rows};
  model.forward(*stream, batch, true);
  model.loss(*stream, batch, false);
  model.backward(*stream, batch, false, {});
  std::vector<float> gradients(parameters.size());
  float stats[kLossStats];
  device->copy_out(*stream, gradients.data(), model.grads(), gradients.size() * sizeof(float));
  device->copy_out(*stream, stats, model.loss_stats(), sizeof(stats));
  stream->synchronize(deadline);

  json layers = by_tensor(model.layout(), parameters);
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    layers[i]["kind"] = row_of(spec.layers[i].kind).name;
    layers[i]["units"] = spec.layers[i].units;
    layers[i]["last_step_only"] = spec.layers[i].last_step_only;
  }
  std::ofstream(arguments[1]) << json{
      {"rows", rows}, {"shape", spec.input_shape}, {"layers", layers}, {"inputs", inputs}, {"targets", targets}};
  std::ofstream(arguments[2]) << json{{"loss", stats[0]}, {"gradients", by_tensor(model.layout(), gradients)}};
  return 0;
}

}  // namespace
}  // namespace amdahl

int main(int count, char** arguments) {
  if (count != 5) {
    std::fprintf(stderr, "usage: recurrent_probe INPUT.json OURS.json ROWS SEED\n");
    return 2;
  }
  try {
    return amdahl::run_recurrent(arguments);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "recurrent_probe: %s\n", error.what());
    return 1;
  }
}
