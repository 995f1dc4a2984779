#include "train/dataset.h"

#include "base/philox.h"

namespace amdahl {
namespace {

constexpr uint32_t kTokenStream = 0x70c3, kLabelStream = 0x1abe;

/// Uniform in 0 .. count-1.
float draw_index(uint64_t seed, int64_t row, int64_t position, int64_t count, uint32_t stream) {
  const Philox4 bits = philox(seed, static_cast<uint32_t>(position), static_cast<uint32_t>(row),
                              static_cast<uint32_t>(row >> 32), stream);
  return static_cast<float>((static_cast<uint64_t>(bits.v[0]) * static_cast<uint64_t>(count)) >> 32);
}

/// Features of the study's generator: of each step of a window, else of the row.
Dataset draw_features(const ModelSpec& model, int64_t rows, int64_t targets, uint64_t seed) {
  if (model.input_shape.size() == 2)
    return make_study_windows(rows, model.input_shape[0], model.input_shape[1], targets, seed);
  Dataset data = make_study_dataset(rows, model.input_width, targets, seed);
  if (!model.input_shape.empty()) data.input_shape = model.input_shape;
  return data;
}

Dataset draw_tokens(const ModelSpec& model, int64_t rows, uint64_t seed) {
  Dataset data;
  data.num_rows = rows;
  data.input_width = model.input_width;
  data.input_shape = model.input_shape;
  data.vocabulary = model.vocabulary();
  data.features.resize(static_cast<size_t>(rows * model.input_width));
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t t = 0; t < model.input_width; ++t)
      data.features[static_cast<size_t>(row * model.input_width + t)] =
          draw_index(seed, row, t, data.vocabulary, kTokenStream);
  return data;
}

void draw_labels(const ModelSpec& model, Dataset& data, uint64_t seed) {
  const int64_t labels = data.targets_per_row;
  data.targets.resize(static_cast<size_t>(data.num_rows * labels));
  for (int64_t row = 0; row < data.num_rows; ++row)
    for (int64_t t = 0; t < labels; ++t) {
      float& target = data.targets[static_cast<size_t>(row * labels + t)];
      if (data.vocabulary > 0 && labels == model.input_width && t + 1 < labels)
        target = data.features[static_cast<size_t>(row * labels + t + 1)];  // the next token
      else
        target = draw_index(seed, row, t, data.output_width, kLabelStream);
    }
}

}  // namespace

Dataset make_model_data(const ModelSpec& model, int64_t rows, uint64_t seed) {
  const bool tokens = model.vocabulary() > 0, regression = model.loss == LossKind::mse;
  if (!tokens && regression) return draw_features(model, rows, model.output_width(), seed);
  Dataset data = tokens ? draw_tokens(model, rows, seed) : draw_features(model, rows, 1, seed);
  data.name = "synthetic";
  data.loss = model.loss;
  data.output_width = model.output_width();
  if (regression) {
    data.targets = make_study_dataset(rows, 1, data.output_width, seed).targets;
    return data;
  }
  data.targets_per_row = model.labels_per_row();
  draw_labels(model, data, seed);
  return data;
}

}  // namespace amdahl
