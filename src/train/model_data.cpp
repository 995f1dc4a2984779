#include "train/model_data.h"

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

}  // namespace

Dataset make_model_data(const ModelSpec& model, int64_t rows, uint64_t seed) {
  if (model.vocabulary() == 0 && model.loss == LossKind::mse)
    return make_study_dataset(rows, model.input_width, model.output_width(), seed);
  Dataset data;
  if (model.vocabulary() == 0) {
    data = make_study_dataset(rows, model.input_width, 1, seed);
  } else {
    data.num_rows = rows;
    data.input_width = model.input_width;
    data.features.resize(static_cast<size_t>(rows * model.input_width));
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t t = 0; t < model.input_width; ++t)
        data.features[static_cast<size_t>(row * model.input_width + t)] =
            draw_index(seed, row, t, model.vocabulary(), kTokenStream);
  }
  data.name = "synthetic";
  data.loss = model.loss;
  data.output_width = model.output_width();
  const int64_t width = model.target_width();
  if (model.loss == LossKind::mse) {
    data.targets = make_study_dataset(rows, 1, width, seed).targets;
    return data;
  }
  data.targets.resize(static_cast<size_t>(rows * width));
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t t = 0; t < width; ++t) {
      float& target = data.targets[static_cast<size_t>(row * width + t)];
      if (model.vocabulary() > 0 && width == model.input_width && t + 1 < width)
        target = data.features[static_cast<size_t>(row * width + t + 1)];  // the next token
      else
        target = draw_index(seed, row, t, model.output_width(), kLabelStream);
    }
  return data;
}

}  // namespace amdahl
