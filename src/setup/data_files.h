// Reads the file of a DataConfig as a Dataset; the name's ending says what it holds.
#pragma once

#include "amdahl/training.h"
#include "train/dataset.h"

namespace amdahl {

/// What the model takes; 0: it does not say.
struct ModelInput {
  int64_t steps = 0;       // rows of a window, or tokens
  int64_t vocabulary = 0;  // tokens
};

/// Loads `data.data_path`: .bin tokens, .txt text, .npy images, anything else CSV. Error{usage} for options that have
/// no effect on such a file and for missing ones; other errors are those of the readers (train/csv.h, token_dataset.h,
/// tokenizer.h, image_dataset.h).
Dataset load_data_file(const DataConfig& data, const ModelInput& model);

/// Error{usage} for options about a file when none is given.
void refuse_file_options(const DataConfig& data);

/// Whether the features are in the units of a table's columns, and must be standardised before training.
bool has_table_features(const DataConfig& data);

}  // namespace amdahl
