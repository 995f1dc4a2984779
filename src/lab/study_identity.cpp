#include "lab/study_identity.h"

#include <fmt/format.h>

#include <bit>

namespace amdahl {
namespace {

// "256+b relu 0.2, 3+b": a model file may keep its name and its number of parameters and still be another model.
std::string layers_text(const ModelSpec& model) {
  std::string text;
  for (const DenseSpec& layer : model.layers) {
    text += fmt::format("{}{}{}", text.empty() ? "" : ", ", layer.units, layer.bias ? "+b" : "");
    if (layer.activation == Activation::relu) text += " relu";
    if (layer.dropout > 0) text += fmt::format(" {}", layer.dropout);
  }
  return text;
}

// Batch sizes at which the selector of mode auto left several devices out.
std::string batches_on_one_device(const StudySettings& settings) {
  std::string text;
  for (const auto& group : settings.groups)
    if (group.size() == 1) text += fmt::format("{}{}", text.empty() ? "" : ",", group.front().global_batch);
  return text;
}

const char* yes_or_no(bool value) { return value ? "yes" : "no"; }

}  // namespace

std::string content_hash(const Dataset& data) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const std::vector<float>* values : {&data.features, &data.targets})
    for (const float value : *values) hash = (hash ^ std::bit_cast<uint32_t>(value)) * 0x100000001b3;
  return fmt::format("{:016x}", hash);
}

std::map<std::string, std::string> study_identity(const StudyConfig& config, const StudySettings& settings,
                                                  const Dataset& data) {
  const TrainingConfig& training = config.training;
  const bool file = !training.data.csv_path.empty();  // the generator's rows follow from the seed
  return {{"model", settings.model.name},
          {"num_parameters", std::to_string(settings.model.num_parameters())},
          {"layers", layers_text(settings.model)},
          {"data", settings.data_name},
          {"data_hash", file ? content_hash(data) : ""},
          {"rows", std::to_string(data.num_rows)},
          {"targets", fmt::format("{}", fmt::join(training.data.targets, ","))},
          {"ignored", fmt::format("{}", fmt::join(training.data.ignored, ","))},
          {"missing", training.data.missing},
          {"regression", yes_or_no(training.data.regression)},
          {"mode", config.mode},
          {"devices", fmt::format("{}", fmt::join(config.devices, ","))},
          {"batch_sizes", fmt::format("{}", fmt::join(config.batch_sizes, ","))},
          {"batches_on_one_device", batches_on_one_device(settings)},
          {"scaling", std::string(to_string(config.scaling))},
          {"strategy", training.strategy},
          {"launch", std::string(to_string(config.engine.launch))},
          {"math", std::string(to_string(config.engine.math))},
          {"optimizer", training.optimizer},
          {"learning_rate", fmt::format("{}", training.learning_rate)},
          {"accumulate", std::to_string(training.accumulate)},
          {"bucket_bytes", std::to_string(training.bucket_bytes)},
          {"overlap", yes_or_no(training.overlap)},
          {"peer_blocks", std::to_string(training.peer_blocks)},
          {"deterministic", yes_or_no(config.engine.deterministic)},
          {"seed", std::to_string(config.engine.seed)},
          {"warmup", std::to_string(config.warmup)},
          {"steps", std::to_string(config.steps)}};
}

}  // namespace amdahl
