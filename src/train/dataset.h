// Training data: read from a file (train/csv.h, token_dataset.h, image_dataset.h) or generated as for the study, then
// split and standardised.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "amdahl/plan.h"
#include "amdahl/tensor.h"

namespace amdahl {

/// Rows of f32: the values of one input, whatever its shape, and its targets.
struct Dataset {
  std::string name;
  int64_t num_rows = 0;
  int64_t input_width = 0;   // floats of one input: the product of `input_shape`
  int64_t output_width = 0;  // number of targets (mse) or of classes (cross-entropy)
  LossKind loss = LossKind::mse;
  /// [features]; [steps, features] of a window; [height, width, channels] of an image; [steps] of tokens.
  std::vector<int64_t> input_shape;
  int64_t vocabulary = 0;       // tokens lie in [0, vocabulary), stored as f32, which is exact up to 2^24; 0: no tokens
  int64_t targets_per_row = 1;  // class indices of one row: 1, or one for each step
  /// Row r + k has values of row r for 0 < k <= `overlap`, as neighbouring windows have: split_data keeps such rows in
  /// one part.
  int64_t overlap = 0;
  std::vector<std::string> feature_names;  // [features] of a step; empty for tokens and images
  std::vector<std::string> target_names;   // one per target column; empty for tokens
  std::vector<std::string> class_names;    // [output_width] for cross-entropy where classes have names, else empty
  std::vector<float> features;             // [num_rows, input_width], less `feature_origins`
  std::vector<float> targets;              // [num_rows, target_floats()]
  /// [features] of a table: what was subtracted from a feature before it became a float; 0 unless that keeps digits.
  std::vector<double> feature_origins;
  std::vector<std::string> notes;     // how the file was read, where that may be wrong
  std::vector<std::string> warnings;  // what its numbers lost

  /// Floats of one row of `targets`: [output_width] values for mse, [targets_per_row] class indices for cross-entropy.
  int64_t target_floats() const { return loss == LossKind::mse ? output_width : targets_per_row; }
};

/// The study's generator: `width` standard normal features of which f1 = 0.7 f0 + 0.3 n and f2 = 0.5 f0 - 0.3 f1 + 0.4
/// n, and `targets` standard normal targets that do not depend on them (nothing can be learnt: the data serve to
/// measure speed). Row r depends on the seed and r, not on `rows`.
Dataset make_study_dataset(int64_t rows, int64_t width, int64_t targets, uint64_t seed);
/// The same as windows: each row has `steps` independent draws of the features, and one of the targets. With one step
/// the values are those of make_study_dataset.
Dataset make_study_windows(int64_t rows, int64_t steps, int64_t width, int64_t targets, uint64_t seed);

/// Row indices of the two parts, each ascending.
struct Split {
  std::vector<int32_t> train;
  std::vector<int32_t> validation;
};

/// Draws round(rows * validation_fraction) rows for validation: at least one when the fraction is positive, and at most
/// rows - 1. Error{usage} for a fraction outside [0, 1) or too few rows.
Split split_rows(int64_t rows, double validation_fraction, uint64_t seed);
/// The split of a data set: that of split_rows, or where rows overlap the last round(rows * validation_fraction) rows,
/// with `overlap` rows before them in neither part, so that no value of a validation row is trained on. Error{usage} as
/// split_rows, and when no row is left to train on.
Split split_data(const Dataset& data, double validation_fraction, uint64_t seed);

/// Subtracts the mean and divides by the standard deviation (of the population) of `fit_rows`, so that no information
/// of the validation rows leaks in. A feature that is constant over `fit_rows` becomes 0 everywhere. The features of
/// a window have one mean and one deviation over all its steps.
void standardise(Dataset& dataset, const std::vector<int32_t>& fit_rows);

/// A uniform permutation of 0 .. n-1 that depends only on seed and epoch.
std::vector<int32_t> permutation(int64_t n, uint64_t seed, uint64_t epoch);

/// Copies the arrays, which must be dense and in host memory. `features` [rows, width] f32; `labels` [rows, outputs]
/// f32 for regression, or [rows] i32 or i64 class indices from 0; the largest index determines the number of classes.
/// Error{usage} names the array and the defect, Error{non_finite} the row and column of a NaN or infinity.
Dataset make_array_dataset(const ConstTensor& features, const ConstTensor& labels);

/// `images`: [rows, height, width, channels], u8 (divided by 255) or f32 (as they are). `labels`: [rows] of i32, i64 or
/// u8, class indices from 0; the largest determines the number of classes.
///
/// Error{usage}: a file that cannot be read. Error{data_corrupt}: files, shapes, types and labels of other kinds.
/// Error{non_finite}: a NaN or infinity, with its row.
Dataset load_images(const std::string& images, const std::string& labels);

/// `rows` rows of the model's input shape. Features are those of make_study_dataset; tokens are uniform in the
/// vocabulary; targets are standard normal (mse), the next token (token classifiers), or uniform classes. Row r depends
/// on the seed and r, not on `rows`.
Dataset make_model_data(const ModelSpec& model, int64_t rows, uint64_t seed);

}  // namespace amdahl
