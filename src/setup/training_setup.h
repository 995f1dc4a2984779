// Turns a TrainingConfig into a model and matching data.
#pragma once

#include "amdahl/training.h"
#include "train/dataset.h"
#include "train/trainer_options.h"

namespace amdahl {

struct TrainingSetup {
  ModelSpec model;
  Dataset data;
};

/// Loads the model file or preset; its widths and loss are adapted to the data. `rows_needed`: upper limit of generated
/// rows (the study's 10,000, or more when a batch is larger). Features of a table are not
/// standardised yet (has_table_features).
TrainingSetup load_training_setup(const TrainingConfig& config, int64_t rows_needed, uint64_t seed);

/// Tells what the reader of the data decided and what numbers lost.
void tell_about_data(const Dataset& data, Observer& observer);

/// Whether the data were given by the caller rather than generated.
bool has_own_data(const DataConfig& data);

/// Trainer options of a configuration; the caller sets strategy, device count and batch of the plan.
TrainerOptions make_trainer_options(const EngineConfig& engine, const TrainingConfig& training, const ModelSpec& model);
/// Error{usage} for options that no strategy or optimizer supports; called before anything is loaded or written.
void check_engine(const EngineConfig& config);
void check_training(const TrainingConfig& config);
/// Sets the length of a learning-rate schedule. Error{usage} when its warm-up leaves no step for the rest.
void set_total_steps(Hyper& hyper, int64_t steps);
/// Finds a preset, or loads a model file when the name ends in .json or contains a slash.
ModelSpec resolve_model(const std::string& name);

}  // namespace amdahl
