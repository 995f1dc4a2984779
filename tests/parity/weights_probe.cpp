// Trains a model that transformers made, from its config.json and weights, on the CPU backend, for
// transformers_test.py.
//
// usage: weights_probe CONFIG.json WEIGHTS BATCH.json STEPS OURS.json TRAINED.safetensors
//   BATCH.json: {"rows", "inputs", "targets"}
//   OURS.json: {"outputs", "loss", "gradients": {tensor: numbers}, in transformers' names and shapes, "trained_loss":
//   after the steps of AdamW}; TRAINED.safetensors: the weights after them
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "files/safetensors.h"
#include "setup/weight_files.h"
#include "small_job.h"
#include "spec/json.h"
#include "train/foreign_names.h"

namespace amdahl::test {
namespace {

using nlohmann::json;

/// The logits of each token of `inputs`, of a head with this table. It keeps none itself.
std::vector<float> logits_of(const std::vector<float>& inputs, const float* table, const LayerSpec& head,
                             int64_t width) {
  std::vector<float> logits;
  for (size_t token = 0; token < inputs.size(); token += static_cast<size_t>(width))
    for (int64_t i = 0; i < head.vocabulary; ++i)
      logits.push_back(static_cast<float>(
          std::inner_product(table + i * width, table + (i + 1) * width, inputs.data() + token, 0.0)));
  return logits;
}

json first_pass(const ModelSpec& spec, const std::vector<float>& parameters, const JobData& data, int64_t rows) {
  const JobDevices job = cpu_job_devices(1);
  Device& device = *job.devices[0];
  const auto stream = device.make_stream("compute");
  const Deadline deadline = Deadline::after_seconds(60);
  const auto storage = std::make_shared<ParameterStorage>(device, make_layout(spec));
  const LayerSpec& last = spec.layers.back();
  const bool has_head = last.kind == LayerKind::token_head;
  Model model(spec, device, *job.ops[0], {.max_rows = rows, .seed = 1, .storage = storage});
  Model below(spec, device, *job.ops[0],
              {.max_rows = rows, .layers = {0, spec.layers.size() - has_head}, .storage = storage});
  model.initialise(*stream, deadline);
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
  below.forward(*stream, batch, true);
  std::vector<float> outputs(static_cast<size_t>(below.output_floats(rows))), gradients(parameters.size());
  device.copy_out(*stream, outputs.data(), below.outputs(), outputs.size() * sizeof(float));
  model.loss(*stream, batch, false);
  model.backward(*stream, batch, false, {});
  float stats[kLossStats];
  device.copy_out(*stream, gradients.data(), model.grads(), gradients.size() * sizeof(float));
  device.copy_out(*stream, stats, model.loss_stats(), sizeof stats);
  stream->synchronize(deadline);
  if (has_head) {
    const TensorSlice& table = model.layout().layers[last.tied ? 0 : spec.layers.size() - 1].tensors[0];
    outputs = logits_of(outputs, parameters.data() + table.begin, last, table.spec.shape[1]);
  }
  json by_name = json::object();
  for (const NamedArray& array : arrays_of(foreign_parts(spec), gradients)) by_name[array.name] = array.values;
  return {{"outputs", outputs}, {"loss", stats[0]}, {"gradients", by_name}};
}

int run_weights(char** arguments) {
  const ModelSpec spec = load_model(arguments[1]);
  const std::vector<float> parameters = read_weights(spec, arguments[2]);
  const json given = json::parse(std::ifstream(arguments[3]));
  const int64_t rows = given.at("rows");
  const JobData data{given.at("inputs"), given.at("targets")};
  json ours = first_pass(spec, parameters, data, rows);

  TrainerOptions options;
  options.model = spec;
  options.plan.global_batch = rows;
  options.hyper.optimizer = "adamw";
  options.hyper.weight_decay = 0.1f;
  JobDevices job = cpu_job_devices(1);
  const RankContext rank{0, 1, *job.devices[0], *job.ops[0], *job.communicators[0]};
  Trainer trainer(rank, options);
  load_parameters(trainer.parts(), parameters);
  const int steps = std::atoi(arguments[4]);
  for (int step = 0; step < steps; ++step) trainer.step(data.features.data(), data.targets.data());
  const std::vector<float> trained = read_parameters(trainer.parts());
  save_safetensors(arguments[6], arrays_of(foreign_parts(spec), trained), {{"format", "pt"}});
  trainer.step(data.features.data(), data.targets.data());
  ours["trained_loss"] = trainer.stats().loss;
  std::ofstream(arguments[5]) << ours;
  return 0;
}

}  // namespace
}  // namespace amdahl::test

int main(int count, char** arguments) {
  try {
    if (count == 7) return amdahl::test::run_weights(arguments);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "weights_probe: %s\n", error.what());
    return 1;
  }
  std::fprintf(stderr, "usage: weights_probe CONFIG.json WEIGHTS BATCH.json STEPS OURS.json TRAINED.safetensors\n");
  return 2;
}
