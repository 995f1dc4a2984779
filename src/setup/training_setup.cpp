#include "setup/training_setup.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "amdahl/error.h"
#include "parallel/data/strategy.h"
#include "plan/plan_rules.h"
#include "setup/comm_choice.h"
#include "setup/data_files.h"
#include "spec/json.h"
#include "train/dataset.h"

namespace amdahl {
namespace {

ModelInput input_of(const ModelSpec& model) {
  const bool has_steps = model.vocabulary() > 0 || model.input_shape.size() == 2;
  return {has_steps ? model.input_shape[0] : 0, model.vocabulary()};
}

/// Tokens would pass as numbers, and numbers as tokens, without an error.
void require_kind_of_input(const ModelSpec& model, const Dataset& data) {
  if ((data.vocabulary > 0) == (model.vocabulary() > 0)) return;
  const auto kind = [](bool tokens) { return tokens ? "tokens" : "numbers"; };
  throw Error(Cause::usage,
              fmt::format("'{}' holds {}, and model '{}' takes {}", data.name, kind(data.vocabulary > 0), model.name,
                          kind(model.vocabulary() > 0)),
              data.vocabulary > 0 ? "a model of tokens, or a CSV file" : "a file of tokens or a text");
}

void require_fitting_targets(const ModelSpec& model, const Dataset& data) {
  if (model.output_width() == data.output_width && model.target_width() == data.target_floats()) return;
  throw Error(Cause::usage,
              fmt::format("'{}' has {} targets of {} {} per row, and model '{}' {} of {}", data.name,
                          data.loss == LossKind::mse ? 1 : data.targets_per_row, data.output_width,
                          data.loss == LossKind::mse ? "values" : "classes", model.name,
                          model.loss == LossKind::mse ? 1 : model.labels_per_row(), model.output_width()),
              "a model of such targets");
}

RateSchedule find_schedule(const std::string& name) {
  if (name == "constant") return RateSchedule::constant;
  if (name == "linear") return RateSchedule::linear;
  if (name == "cosine") return RateSchedule::cosine;
  throw Error(Cause::usage, fmt::format("`lr_schedule`: unknown schedule '{}'", name),
              choices_hint(name, {"constant", "linear", "cosine"}));
}

/// Error{usage} for layers that fp16 does not cover.
void require_half_precision(const ModelSpec& model) {
  for (size_t i = 0; i < model.layers.size(); ++i)
    if (model.layers[i].kind == LayerKind::lstm || model.layers[i].kind == LayerKind::gru)
      throw Error(Cause::usage,
                  fmt::format("model '{}': layer {} ({}) does not compute in fp16", model.name, i,
                              row_of(model.layers[i].kind).name),
                  "`math=bf16`, tf32 or fp32");
}

TrainingSetup fitted(ModelSpec model, Dataset data) {
  require_kind_of_input(model, data);
  // Dense layers take the values of any shape as one row.
  const std::vector<int64_t> shape = model.is_mlp() ? std::vector<int64_t>{data.input_width} : data.input_shape;
  TrainingSetup setup{fit_to_data(std::move(model), shape, data.output_width, data.loss), std::move(data)};
  setup.model.validate();
  require_fitting_targets(setup.model, setup.data);
  return setup;
}

}  // namespace

void tell_about_data(const Dataset& data, Observer& observer) {
  for (const std::string& note : data.notes) observer.note(named(note));
  for (const std::string& warning : data.warnings) observer.warning(warning);
}

bool has_own_data(const DataConfig& data) { return !data.data_path.empty() || data.features.data || data.labels.data; }

ModelSpec resolve_model(const std::string& name) {
  const bool file = name.ends_with(".json") || name.find('/') != std::string::npos;
  return file ? load_model(name) : find_model_preset(name);
}

TrainingSetup load_training_setup(const TrainingConfig& config, int64_t rows_needed, uint64_t seed) {
  ModelSpec model = resolve_model(config.model);
  model.validate();
  if (config.data.data_path.empty()) refuse_file_options(config.data);
  if (config.data.features.data || config.data.labels.data) {
    if (!config.data.data_path.empty())
      throw Error(Cause::usage, fmt::format("data from `data_path` '{}' and from arrays", config.data.data_path),
                  "one of them");
    return fitted(std::move(model), make_array_dataset(config.data.features, config.data.labels));
  }
  if (config.data.data_path.empty()) {
    const int64_t rows = std::max(rows_needed, int64_t{1});
    if (model.is_mlp()) model.loss = LossKind::mse;
    Dataset data = make_model_data(model, rows, seed);
    return {std::move(model), std::move(data)};
  }
  Dataset data = load_data_file(config.data, input_of(model));
  if (config.data.end_token >= 0 && model.vocabulary() > 0) model.layers.front().end_token = config.data.end_token;
  return fitted(std::move(model), std::move(data));
}

TrainerOptions make_trainer_options(const EngineConfig& engine, const TrainingConfig& training,
                                    const ModelSpec& model) {
  if (engine.math == MathMode::fp16) require_half_precision(model);
  TrainerOptions options;
  options.model = model;
  static_cast<PlanOptions&>(options.plan) = training.plan;
  options.hyper.optimizer = training.optimizer;
  options.hyper.learning_rate = static_cast<float>(training.learning_rate);
  constexpr double kUsualDecay = 0.01;
  if (training.optimizer == "adamw")
    options.hyper.weight_decay = static_cast<float>(training.weight_decay.value_or(kUsualDecay));
  options.hyper.clip_norm = static_cast<float>(training.clip_norm);
  options.hyper.rate_plan.schedule = find_schedule(training.lr_schedule);
  options.hyper.rate_plan.warmup_steps = training.lr_warmup_steps;
  options.launch = engine.launch;
  options.seed = engine.seed;
  options.timeout_seconds = engine.timeout_seconds;
  options.auto_timeout = engine.auto_timeout;
  return options;
}

void check_engine(const EngineConfig& config) {
  constexpr double kLongestTimeout = 1e6;  // 11 days
  if (!(config.timeout_seconds > 0 && config.timeout_seconds <= kLongestTimeout))
    throw Error(Cause::usage, fmt::format("`timeout_seconds` is {} s", config.timeout_seconds),
                fmt::format("more than 0 and at most {:.0f} seconds, for example 60", kLongestTimeout));
  find_comm(config.comm);
  for (const double speed : config.device_speeds)
    if (!(speed > 0 && speed <= 1))
      throw Error(Cause::usage, fmt::format("`device_speeds` has {}", speed),
                  "fractions above 0, at most 1, like 1,0.5");
}

void check_training(const TrainingConfig& config) {
  find_strategy(config.strategy);
  if (config.optimizer != "adam" && config.optimizer != "adamw" && config.optimizer != "sgd")
    throw Error(Cause::usage, fmt::format("unknown optimizer '{}'", config.optimizer),
                choices_hint(config.optimizer, {"adam", "adamw", "sgd"}));
  check_plan_options(config.plan);
  if (const Feasibility act = fields_act({config.plan, "zero1", config.mesh, 0}); !act.ok)
    throw Error(Cause::usage, act.reason, "`plan=pp2,1f1b`, or no such option");
  // The optimizers compute in 32 bits: a smaller rate would be rounded to zero.
  constexpr double kLeast = std::numeric_limits<float>::min(), kMost = std::numeric_limits<float>::max();
  if (!(config.learning_rate >= kLeast && config.learning_rate <= kMost))
    throw Error(Cause::usage, fmt::format("`learning_rate` is {}", config.learning_rate),
                "a positive value like 0.001");
  if (config.weight_decay && config.optimizer != "adamw")
    throw Error(Cause::usage, fmt::format("`weight_decay` has no effect on optimizer {}", config.optimizer),
                "`optimizer=adamw`");
  if (config.weight_decay && !(*config.weight_decay >= 0 && *config.weight_decay * config.learning_rate <= 1))
    throw Error(Cause::usage, fmt::format("`weight_decay` is {}", *config.weight_decay),
                "at least 0 and at most 1 / `learning_rate`, for example 0.1");
  if (config.clip_norm != 0 && !(config.clip_norm >= kLeast && config.clip_norm <= kMost))
    throw Error(Cause::usage, fmt::format("`clip_norm` is {}", config.clip_norm),
                "a positive value like 1, or 0 to clip nothing");
  find_schedule(config.lr_schedule);
  if (config.lr_warmup_steps < 0)
    throw Error(Cause::usage, fmt::format("`lr_warmup_steps` is {}", config.lr_warmup_steps), "at least 0");
}

void set_total_steps(Hyper& hyper, int64_t steps) {
  hyper.rate_plan.total_steps = steps;
  if (hyper.rate_plan.schedule != RateSchedule::constant && hyper.rate_plan.warmup_steps >= steps)
    throw Error(
        Cause::usage,
        fmt::format("`lr_warmup_steps` is {} and the schedule has {} steps", hyper.rate_plan.warmup_steps, steps),
        "a smaller number");
}

}  // namespace amdahl
