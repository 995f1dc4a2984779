#include "verbs/training/study_identity.h"

#include <fmt/format.h>

#include <bit>
#include <filesystem>

#include "base/digest.h"
#include "plan/layer_kinds.h"
#include "report/common/record_checks.h"
#include "setup/training_setup.h"

namespace amdahl {
namespace {

// " 768", of a field that older Records lack " kv_heads=8".
std::string field_text(const LayerField& field, const LayerSpec& layer) {
  const std::string name = field.is_omitted ? fmt::format("{}=", field.name) : "";
  if (field.number) return fmt::format(" {}{}", name, layer.*field.number);
  return fmt::format(" {}{}", name,
                     field.integer   ? layer.*field.integer
                     : field.boolean ? int64_t{layer.*field.boolean}
                                     : field.chosen(layer));
}

// "256+b relu 0.2, 3+b": an edited model file may keep its name and number of parameters.
std::string layers_text(const ModelSpec& model) {
  std::string text;
  for (const LayerSpec& layer : model.layers) {
    if (!text.empty()) text += ", ";
    if (layer.kind != LayerKind::dense) {
      text += row_of(layer.kind).name;
      for (const LayerField& field : row_of(layer.kind).fields)
        if (field.is_written(layer)) text += field_text(field, layer);
      continue;
    }
    text += fmt::format("{}{}", layer.units, layer.bias ? "+b" : "");
    if (layer.activation == Activation::relu) text += " relu";
    if (layer.dropout > 0) text += fmt::format(" {}", layer.dropout);
  }
  return text;
}

// Batch sizes for which the selector of mode auto skipped several devices.
std::string batches_on_one_device(const StudySettings& settings) {
  std::string text;
  for (const auto& group : settings.groups)
    if (group.size() == 1) text += fmt::format("{}{}", text.empty() ? "" : ",", group.front().global_batch);
  return text;
}

std::string weight_decay_text(const TrainingConfig& training) {
  return training.weight_decay ? fmt::format("{}", *training.weight_decay) : "usual";
}

const char* yes_or_no(bool value) { return value ? "yes" : "no"; }

// Of the floats' bits: distinguishes two versions of a file.
std::string hash_text(const Dataset& data) {
  Fnv1a digest;
  for (const std::vector<float>* values : {&data.features, &data.targets})
    for (const float value : *values) digest.add(std::bit_cast<uint32_t>(value));
  return digest.text();
}

}  // namespace

void add_origin(std::map<std::string, std::string>& identity, const Provenance& provenance) {
  identity["host"] = provenance.host;
  identity["tool_version"] = provenance.tool_version;
  identity["commit"] = provenance.commit;
  identity["device_kind"] = provenance.device_kind;
  identity["device_names"] = device_names_of(provenance);
}

std::string data_name(const DataConfig& data) {
  if (!data.data_path.empty()) return std::filesystem::path(data.data_path).filename().string();
  return has_own_data(data) ? "arrays" : "synthetic";
}

std::map<std::string, std::string> training_identity(const EngineConfig& engine, const TrainingConfig& training,
                                                     const ModelSpec& model, const Dataset& data) {
  const bool own = has_own_data(training.data);  // generated rows follow from the seed
  std::map<std::string, std::string> identity{{"model", model.name},
                                              {"num_parameters", std::to_string(model.num_parameters())},
                                              {"layers", layers_text(model)},
                                              {"data", data_name(training.data)},
                                              {"data_hash", own ? hash_text(data) : ""},
                                              {"rows", std::to_string(data.num_rows)},
                                              {"input_shape", fmt::format("{}", fmt::join(data.input_shape, "x"))},
                                              {"targets", fmt::format("{}", fmt::join(training.data.targets, ","))},
                                              {"ignored", fmt::format("{}", fmt::join(training.data.ignored, ","))},
                                              {"missing", training.data.missing},
                                              {"regression", yes_or_no(training.data.regression)},
                                              {"strategy", training.strategy},
                                              {"launch", std::string(to_string(engine.launch))},
                                              {"math", std::string(to_string(engine.math))},
                                              {"optimizer", training.optimizer},
                                              {"learning_rate", fmt::format("{}", training.learning_rate)},
                                              {"weight_decay", weight_decay_text(training)},
                                              {"clip_norm", fmt::format("{}", training.clip_norm)},
                                              {"lr_schedule", training.lr_schedule},
                                              {"lr_warmup_steps", std::to_string(training.lr_warmup_steps)},
                                              {"comm", engine.comm},
                                              {"deterministic", yes_or_no(engine.deterministic)},
                                              {"seed", std::to_string(engine.seed)}};
  for (const PlanField& field : plan_fields()) identity.emplace(field.name, text_of(field, training.plan));
  return identity;
}

std::map<std::string, std::string> study_identity(const StudyConfig& config, const StudySettings& settings,
                                                  const Dataset& data) {
  std::map<std::string, std::string> identity = training_identity(config.engine, config.training, settings.model, data);
  std::vector<std::string> plans;
  for (const ParallelPlan& plan : config.plans) plans.push_back(format_plan(plan));
  if (!plans.empty()) identity["plans"] = fmt::format("{}", fmt::join(plans, " "));
  identity.insert({{"mode", config.mode},
                   {"devices", fmt::format("{}", fmt::join(config.devices, ","))},
                   {"batch_sizes", fmt::format("{}", fmt::join(config.batch_sizes, ","))},
                   {"batches_on_one_device", batches_on_one_device(settings)},
                   {"scaling", std::string(to_string(config.scaling))},
                   {"warmup", std::to_string(config.warmup)},
                   {"steps", std::to_string(config.steps)},
                   {"processes", std::to_string(config.processes.count)}});
  return identity;
}

}  // namespace amdahl
