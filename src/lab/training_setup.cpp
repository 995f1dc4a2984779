#include "lab/training_setup.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "parallel/data/strategy.h"
#include "spec/json.h"
#include "train/array_dataset.h"
#include "train/csv.h"

namespace amdahl {
namespace {

CsvOptions csv_options(const DataConfig& config) {
  CsvOptions options;
  options.path = config.csv_path;
  options.target_columns = config.targets;
  options.ignore_columns = config.ignored;
  options.delimiter = config.delimiter;
  options.task = config.regression ? CsvOptions::Task::regression : CsvOptions::Task::automatic;
  if (config.missing == "drop") {
    options.missing = CsvOptions::Missing::drop_row;
  } else if (config.missing == "mean") {
    options.missing = CsvOptions::Missing::mean;
  } else if (config.missing != "refuse") {
    throw Error(Cause::usage, fmt::format("`missing`: unknown treatment '{}' of missing values", config.missing),
                choices_hint(config.missing, {"refuse", "drop", "mean"}));
  }
  return options;
}

// Options that have no effect without a file: ignoring them would run something else than requested.
void refuse_csv_options(const DataConfig& data) {
  const char* option = !data.targets.empty()      ? "`targets`"
                       : !data.ignored.empty()    ? "`ignored`"
                       : data.missing != "refuse" ? "`missing`"
                       : data.delimiter != 0      ? "`delimiter`"
                       : data.regression          ? "`regression`"
                                                  : nullptr;
  if (option)
    throw Error(Cause::usage, fmt::format("{} is about a CSV file but there is no `csv_path` file", option),
                "`csv_path=FILE.csv`");
}

TrainingSetup fitted(ModelSpec model, Dataset data) {
  TrainingSetup setup{fit_to_data(std::move(model), data.input_width, data.output_width, data.loss), std::move(data)};
  setup.model.validate();
  return setup;
}

}  // namespace

bool has_own_data(const DataConfig& data) { return !data.csv_path.empty() || data.features.data || data.labels.data; }

ModelSpec resolve_model(const std::string& name) {
  const bool file = name.ends_with(".json") || name.find('/') != std::string::npos;
  return file ? load_model(name) : find_model_preset(name);
}

TrainingSetup load_training_setup(const TrainingConfig& config, int64_t rows_needed, uint64_t seed) {
  ModelSpec model = resolve_model(config.model);
  model.validate();
  if (config.data.csv_path.empty()) refuse_csv_options(config.data);
  if (config.data.features.data || config.data.labels.data) {
    if (!config.data.csv_path.empty())
      throw Error(Cause::usage, fmt::format("data from `csv_path` '{}' and from arrays", config.data.csv_path),
                  "one of them");
    return fitted(std::move(model), make_array_dataset(config.data.features, config.data.labels));
  }
  if (config.data.csv_path.empty()) {
    const int64_t rows = std::max(rows_needed, int64_t{1});
    Dataset data = make_study_dataset(rows, model.input_width, model.output_width(), seed);
    model.loss = LossKind::mse;
    return {std::move(model), std::move(data)};
  }
  if (config.data.targets.empty())
    throw Error(Cause::usage, fmt::format("'{}' needs a target column", config.data.csv_path),
                "`targets=COLUMN[,COLUMN]`");
  return fitted(std::move(model), load_csv(csv_options(config.data)));
}

TrainerOptions make_trainer_options(const EngineConfig& engine, const TrainingConfig& training,
                                    const ModelSpec& model) {
  TrainerOptions options;
  options.model = model;
  static_cast<PlanOptions&>(options.plan) = training.plan;
  options.hyper.optimizer = training.optimizer;
  options.hyper.learning_rate = static_cast<float>(training.learning_rate);
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
}

void check_training(const TrainingConfig& config) {
  find_strategy(config.strategy);
  if (config.optimizer != "adam" && config.optimizer != "sgd")
    throw Error(Cause::usage, fmt::format("unknown optimizer '{}'", config.optimizer),
                choices_hint(config.optimizer, {"adam", "sgd"}));
  check_plan_options(config.plan);
  // The optimizers compute in 32 bits: a smaller rate would be rounded to zero.
  if (!(config.learning_rate >= static_cast<double>(std::numeric_limits<float>::min()) &&
        config.learning_rate <= static_cast<double>(std::numeric_limits<float>::max())))
    throw Error(Cause::usage, fmt::format("`learning_rate` is {}", config.learning_rate),
                "a positive value like 0.001");
}

}  // namespace amdahl
