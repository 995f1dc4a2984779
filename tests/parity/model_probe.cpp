// Computes loss and gradients of a model on the CPU backend, with random parameters and data, for the scripts in this
// folder that compare them with PyTorch's.
//
// usage: model_probe MODEL.json ROWS SEED PROBLEM.json OURS.json, or model_probe kinds
//   PROBLEM.json: {"model": as in a model file, with all fields, "rows", "inputs", "targets", "parameters": per layer
//   {tensor: numbers}, "masks": per layer the factors of its dropout [rows, units], or null}
//   OURS.json: {"loss", "num_correct", "gradients": per layer {tensor: numbers}}
// With `kinds` it prints the names of all kinds of layers as a JSON list.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <string_view>

#include "base/philox.h"
#include "small_job.h"
#include "spec/json.h"

namespace amdahl::test {
namespace {

using nlohmann::json;

/// Per layer, the values of its tensors by name.
json by_tensor(const ParameterLayout& layout, const std::vector<float>& all) {
  json layers = json::array();
  for (const LayerSlice& layer : layout.layers) {
    json tensors = json::object();
    for (const TensorSlice& tensor : layer.tensors) {
      const auto first = all.begin() + tensor.begin;
      tensors[tensor.spec.name] = std::vector<float>(first, first + tensor.spec.num_parameters());
    }
    layers.push_back(tensors);
  }
  return layers;
}

/// Initial values and a random part, so that no bias is zero, no gain is one and attention is not nearly uniform.
std::vector<float> random_parameters(const ModelSpec& spec, const ParameterLayout& layout, uint64_t seed) {
  std::vector<float> all = initial_parameters(spec, layout, seed);
  std::mt19937_64 generator(seed + 1);
  std::uniform_real_distribution<float> random_part(-0.3f, 0.3f);
  for (const LayerSlice& layer : layout.layers)
    for (const TensorSlice& tensor : layer.tensors)
      for (int64_t i = 0; i < tensor.spec.num_parameters(); ++i)
        all[static_cast<size_t>(tensor.begin + i)] += random_part(generator);
  return all;
}

/// What step 0 multiplies the output of the layer by; null without dropout.
json dropout_mask(const LayerSpec& layer, size_t index, int64_t rows, uint64_t seed) {
  if (layer.dropout == 0) return nullptr;
  std::vector<double> mask;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < layer.units; ++column) {
      const Philox4 draw = dropout_draw(seed, static_cast<uint32_t>(column / 4), static_cast<uint32_t>(row), 0,
                                        static_cast<uint32_t>(index));
      mask.push_back(draw.v[column % 4] < dropout_keep_threshold(layer.dropout) ? 1 / (1 - layer.dropout) : 0);
    }
  return mask;
}

int run_model(char** arguments) {
  const ModelSpec spec = load_model(arguments[1]);
  const int64_t rows = std::atoll(arguments[2]);
  const auto seed = static_cast<uint64_t>(std::atoll(arguments[3]));
  const JobDevices job = cpu_job_devices(1);
  Device& device = *job.devices[0];
  const auto stream = device.make_stream("compute");
  const Deadline deadline = Deadline::after_seconds(30);
  Model model(spec, device, *job.ops[0], {.max_rows = rows, .seed = seed});
  model.initialise(*stream, deadline);

  const auto parameters = random_parameters(spec, model.layout(), seed);
  const JobData data = random_data(spec, rows, seed);
  const auto upload = [&](const std::vector<float>& values, void* to) {
    device.copy_in(*stream, to, values.data(), values.size() * sizeof(float));
  };
  const auto features = device.allocate(data.features.size() * sizeof(float));
  const auto targets = device.allocate(data.targets.size() * sizeof(float));
  upload(parameters, model.params());
  upload(data.features, features->data());
  upload(data.targets, targets->data());
  const BatchView batch{features->as<float>(), targets->as<float>(), rows, 0, rows};
  model.forward(*stream, batch, true);
  model.loss(*stream, batch, false);
  model.backward(*stream, batch, false, {});
  std::vector<float> gradients(parameters.size());
  float stats[kLossStats];
  device.copy_out(*stream, gradients.data(), model.grads(), gradients.size() * sizeof(float));
  device.copy_out(*stream, stats, model.loss_stats(), sizeof(stats));
  stream->synchronize(deadline);

  json masks = json::array();
  for (size_t i = 0; i < spec.layers.size(); ++i) masks.push_back(dropout_mask(spec.layers[i], i, rows, seed));
  std::ofstream(arguments[4]) << json{{"model", json::parse(model_to_json(spec))},
                                      {"rows", rows},
                                      {"inputs", data.features},
                                      {"targets", data.targets},
                                      {"parameters", by_tensor(model.layout(), parameters)},
                                      {"masks", masks}};
  std::ofstream(arguments[5]) << json{
      {"loss", stats[0]}, {"num_correct", stats[1]}, {"gradients", by_tensor(model.layout(), gradients)}};
  return 0;
}

int print_kinds() {
  json names = json::array();
  for (const LayerKindRow& row : layer_kinds()) names.push_back(row.name);
  std::printf("%s\n", names.dump().c_str());
  return 0;
}

}  // namespace
}  // namespace amdahl::test

int main(int count, char** arguments) {
  try {
    if (count == 2 && std::string_view(arguments[1]) == "kinds") return amdahl::test::print_kinds();
    if (count == 6) return amdahl::test::run_model(arguments);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "model_probe: %s\n", error.what());
    return 1;
  }
  std::fprintf(stderr, "usage: model_probe MODEL.json ROWS SEED PROBLEM.json OURS.json, or model_probe kinds\n");
  return 2;
}
