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

#include "files/safetensors.h"
#include "setup/weight_files.h"
#include "small_job.h"
#include "spec/json.h"
#include "train/foreign_names.h"

namespace amdahl::test {
namespace {

using nlohmann::json;

/// Floats from one output to the next: logits lie in the padded vocabulary.
int64_t output_stride(const ModelSpec& spec) {
  const LayerSpec& last = spec.layers.back();
  return last.kind == LayerKind::token_head ? padded_vocabulary(last.vocabulary) : spec.output_width();
}

json first_pass(const ModelSpec& spec, const std::vector<float>& parameters, const JobData& data, int64_t rows) {
  const JobDevices job = cpu_job_devices(1);
  Device& device = *job.devices[0];
  const auto stream = device.make_stream("compute");
  const Deadline deadline = Deadline::after_seconds(60);
  Model model(spec, device, *job.ops[0], {.max_rows = rows, .seed = 1});
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
  const int64_t stride = output_stride(spec), width = spec.output_width();
  const int64_t count = model.output_floats(rows) / width;
  std::vector<float> stored(static_cast<size_t>(count * stride)), outputs, gradients(parameters.size());
  device.copy_out(*stream, stored.data(), model.outputs(), stored.size() * sizeof(float));
  model.loss(*stream, batch, false);
  model.backward(*stream, batch, false, {});
  float stats[kLossStats];
  device.copy_out(*stream, gradients.data(), model.grads(), gradients.size() * sizeof(float));
  device.copy_out(*stream, stats, model.loss_stats(), sizeof stats);
  stream->synchronize(deadline);
  for (int64_t i = 0; i < count; ++i) {
    const auto begin = stored.begin() + i * stride;
    outputs.insert(outputs.end(), begin, begin + width);
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
