// Writes one random problem for tools/torch_reference.py, and what our CPU backend makes of it.
//
// usage: gradient_probe INPUT.json OURS.json LOSS ROWS SEED, LOSS "mse" or "softmax_cross_entropy". OURS.json has the
// format of the reference's output, without inputs_grad and outputs.
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

ModelSpec random_model(LossKind loss, std::mt19937_64& generator) {
  const auto width = [&](int64_t most) { return std::uniform_int_distribution<int64_t>(1, most)(generator); };
  ModelSpec model;
  model.name = "random";
  model.input_width = width(150);
  const int64_t hidden = width(4);
  for (int64_t i = 0; i < hidden; ++i) model.layers.push_back({width(140), width(2) == 1, Activation::relu, 0.0});
  model.layers.push_back({1 + width(12), width(2) == 1, Activation::none, 0.0});
  model.loss = loss;
  return model;
}

struct Problem {
  ModelSpec model;
  int64_t rows;
  uint64_t seed;
  std::vector<float> inputs, targets;
};

Problem random_problem(LossKind loss, int64_t rows, uint64_t seed) {
  std::mt19937_64 generator(seed);
  Problem problem{random_model(loss, generator), rows, seed, {}, {}};
  std::normal_distribution<float> normal;
  std::uniform_int_distribution<int64_t> label(0, problem.model.output_width() - 1);
  problem.inputs.resize(static_cast<size_t>(rows * problem.model.input_width));
  for (float& value : problem.inputs) value = normal(generator);
  problem.targets.resize(static_cast<size_t>(rows * problem.model.target_width()));
  for (float& value : problem.targets)
    value = loss == LossKind::mse ? normal(generator) : static_cast<float>(label(generator));
  return problem;
}

std::vector<float> part(const std::vector<float>& all, int64_t begin, int64_t count) {
  return begin < 0 ? std::vector<float>{} : std::vector<float>(all.begin() + begin, all.begin() + begin + count);
}

json input_json(const Problem& p, const ParameterLayout& layout, const std::vector<float>& params) {
  json layers = json::array();
  for (size_t i = 0; i < p.model.layers.size(); ++i) {
    const LayerSpec& layer = p.model.layers[i];
    layers.push_back({{"units", layer.units},
                      {"activation", layer.activation == Activation::relu ? "relu" : "none"},
                      {"weights", part(params, layout.layers[i].weight, layer.units * p.model.layer_input_width(i))},
                      {"bias", part(params, layout.layers[i].bias, layer.units)}});
  }
  json targets = p.targets;
  if (p.model.loss != LossKind::mse)
    for (json& value : targets) value = static_cast<int64_t>(value.get<double>());
  return {{"loss", p.model.loss == LossKind::mse ? "mse" : "softmax_cross_entropy"},
          {"rows", p.rows},
          {"input_width", p.model.input_width},
          {"layers", layers},
          {"inputs", p.inputs},
          {"targets", targets}};
}

// Random biases too: initialisation leaves them zero.
std::vector<float> randomise_biases(Model& model, Stream& stream, Device& device, uint64_t seed) {
  std::vector<float> params = initial_parameters(model.spec(), model.layout(), seed);
  std::mt19937_64 generator(seed + 1);
  std::normal_distribution<float> normal(0.0f, 0.3f);
  for (size_t i = 0; i < model.spec().layers.size(); ++i) {
    const int64_t bias = model.layout().layers[i].bias;
    for (int64_t u = 0; bias >= 0 && u < model.spec().layers[i].units; ++u)
      params[static_cast<size_t>(bias + u)] = normal(generator);
  }
  device.copy_in(stream, model.params(), params.data(), params.size() * sizeof(float));
  stream.synchronize(Deadline::after_seconds(30));
  return params;
}

std::unique_ptr<Buffer> upload(Device& device, Stream& stream, const std::vector<float>& values) {
  auto buffer = device.allocate(values.size() * sizeof(float));
  device.copy_in(stream, buffer->data(), values.data(), values.size() * sizeof(float));
  stream.synchronize(Deadline::after_seconds(30));
  return buffer;
}

json compute(const Problem& p, json& input) {
  auto device = std::move(make_cpu_devices(1).front());
  auto ops = make_cpu_ops(*device, {});
  auto stream = device->make_stream("compute");
  Model model(p.model, *device, *ops, {.max_rows = p.rows, .seed = p.seed});
  model.initialise(*stream, Deadline::after_seconds(30));
  input = input_json(p, model.layout(), randomise_biases(model, *stream, *device, p.seed));
  const auto inputs = upload(*device, *stream, p.inputs), targets = upload(*device, *stream, p.targets);
  const BatchView batch{inputs->as<float>(), targets->as<float>(), p.rows, 0, p.rows};
  model.forward(*stream, batch, true);
  model.loss(*stream, batch, false);
  model.backward(*stream, batch, false, {});
  std::vector<float> grads(static_cast<size_t>(model.layout().num_floats));
  device->copy_out(*stream, grads.data(), model.grads(), grads.size() * sizeof(float));
  float stats[kLossStats];
  device->copy_out(*stream, stats, model.loss_stats(), sizeof(stats));
  stream->synchronize(Deadline::after_seconds(30));
  json layers = json::array();
  for (size_t i = 0; i < p.model.layers.size(); ++i) {
    const int64_t units = p.model.layers[i].units;
    layers.push_back(
        {{"weights_grad", part(grads, model.layout().layers[i].weight, units * p.model.layer_input_width(i))},
         {"bias_grad", part(grads, model.layout().layers[i].bias, units)}});
  }
  return {{"loss", stats[0]}, {"num_correct", stats[1]}, {"layers", layers}};
}

int run(char** arguments) {
  const std::string loss = arguments[3];
  const Problem problem = random_problem(loss == "mse" ? LossKind::mse : LossKind::softmax_cross_entropy,
                                         std::atoll(arguments[4]), static_cast<uint64_t>(std::atoll(arguments[5])));
  json input;
  const json ours = compute(problem, input);
  std::ofstream(arguments[1]) << input;
  std::ofstream(arguments[2]) << ours;
  return 0;
}

}  // namespace
}  // namespace amdahl

int main(int count, char** arguments) {
  if (count != 6) {
    std::fprintf(stderr, "usage: gradient_probe INPUT.json OURS.json LOSS ROWS SEED\n");
    return 2;
  }
  try {
    return amdahl::run(arguments);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gradient_probe: %s\n", error.what());
    return 1;
  }
}
