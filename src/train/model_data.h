// Generated data that fit a model: for measuring speed where no data are given.
#pragma once

#include "train/dataset.h"

namespace amdahl {

/// `rows` rows of the model's input shape. Features are those of make_study_dataset; tokens are uniform in the
/// vocabulary; targets are standard normal (mse), the next token (token classifiers), or uniform classes. Row r depends
/// on the seed and r, not on `rows`.
Dataset make_model_data(const ModelSpec& model, int64_t rows, uint64_t seed);

}  // namespace amdahl
