// Training data: read from a CSV file (train/csv.h) or generated as for the study, then split and standardised.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "amdahl/model_spec.h"

namespace amdahl {

struct Dataset {
  std::string name;
  int64_t num_rows = 0;
  int64_t input_width = 0;
  int64_t output_width = 0;  // number of targets (mse) or of classes (cross-entropy)
  LossKind loss = LossKind::mse;
  std::vector<std::string> feature_names;  // [input_width]
  std::vector<std::string> target_names;   // one per target column
  std::vector<std::string> class_names;    // [output_width] for cross-entropy, else empty
  std::vector<float> features;             // [num_rows, input_width]
  std::vector<float> targets;              // [num_rows, output_width] for mse, [num_rows] class index for cross-entropy
};

/// The study's generator: `width` standard normal features of which f1 = 0.7 f0 + 0.3 n and f2 = 0.5 f0 - 0.3 f1 + 0.4
/// n, and `targets` standard normal targets that do not depend on them (nothing can be learnt: the data serve to
/// measure speed). Row r depends on the seed and r, not on `rows`.
Dataset make_study_dataset(int64_t rows, int64_t width, int64_t targets, uint64_t seed);

/// Row indices of the two parts, each ascending.
struct Split {
  std::vector<int32_t> train;
  std::vector<int32_t> validation;
};

/// Draws round(rows * validation_fraction) rows for validation: at least one when the fraction is positive, and at most
/// rows - 1. Error{usage} for a fraction outside [0, 1) or too few rows.
Split split_rows(int64_t rows, double validation_fraction, uint64_t seed);

/// Subtracts the mean and divides by the standard deviation (of the population) of `fit_rows`, so that no information
/// of the validation rows leaks in. A feature that is constant over `fit_rows` becomes 0 everywhere.
void standardise(Dataset& dataset, const std::vector<int32_t>& fit_rows);

/// A uniform permutation of 0 .. n-1 that depends only on seed and epoch.
std::vector<int32_t> permutation(int64_t n, uint64_t seed, uint64_t epoch);

}  // namespace amdahl
