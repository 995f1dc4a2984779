// From a TrainingConfig to a model and data that fit each other.
#pragma once

#include "amdahl/amdahl.h"
#include "train/dataset.h"
#include "train/trainer.h"

namespace amdahl {

struct TrainingSetup {
  ModelSpec model;
  Dataset data;
};

/// Model file or preset, widths and loss fitted to the data. `rows_needed` bounds what the generator makes (the study's
/// 10,000 rows, or more when a batch is larger). CSV features are not yet standardised.
TrainingSetup load_training_setup(const TrainingConfig& config, int64_t rows_needed, uint64_t seed);

/// Whether the rows are the caller's, not the generator's.
bool has_own_data(const DataConfig& data);

/// Trainer options of a configuration; strategy, device count and batch of the plan are left to the caller.
TrainerOptions make_trainer_options(const EngineConfig& engine, const TrainingConfig& training, const ModelSpec& model);
/// Refuses what no strategy or optimizer can do, before anything is loaded or written.
void check_engine(const EngineConfig& config);
void check_training(const TrainingConfig& config);
/// A preset, or a model file when the name ends in .json or holds a slash.
ModelSpec resolve_model(const std::string& name);

}  // namespace amdahl
