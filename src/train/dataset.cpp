#include "train/dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>
#include <utility>

#include "base/philox.h"

namespace amdahl {
namespace {

// Last Philox counter word: separates these streams from each other and from dropout, which uses the layer index there.
enum Stream : uint32_t { kFeatureStream = 0x44410001u, kTargetStream, kPermutationStream };
constexpr uint64_t kSplitEpoch = std::numeric_limits<uint64_t>::max();  // an epoch number that training never uses

uint32_t low(uint64_t v) { return static_cast<uint32_t>(v); }
uint32_t high(uint64_t v) { return static_cast<uint32_t>(v >> 32); }

/// Writes `count` standard normal numbers of one row: Box-Muller on two pairs of uniforms in (0, 1].
void fill_normal(float* out, int64_t count, int64_t row, uint32_t stream, uint64_t seed) {
  const auto r = static_cast<uint64_t>(row);
  for (int64_t block = 0; block * 4 < count; ++block) {
    const Philox4 bits = philox(seed, static_cast<uint32_t>(block), low(r), high(r), stream);
    for (int pair = 0; pair < 2; ++pair) {
      const double radius = std::sqrt(-2.0 * std::log(static_cast<double>(philox_uniform(bits.v[2 * pair]))));
      const double angle = 2.0 * std::numbers::pi * static_cast<double>(philox_uniform(bits.v[2 * pair + 1]));
      const int64_t at = block * 4 + pair * 2;
      if (at < count) out[at] = static_cast<float>(radius * std::cos(angle));
      if (at + 1 < count) out[at + 1] = static_cast<float>(radius * std::sin(angle));
    }
  }
}

void check_rows(int64_t rows, const char* what) {
  if (rows < 0 || rows > std::numeric_limits<int32_t>::max())
    throw Error(Cause::usage, fmt::format("{}: {} rows", what, rows), "between 0 and 2,147,483,647 rows");
}

}  // namespace

Dataset make_study_dataset(int64_t rows, int64_t width, int64_t targets, uint64_t seed) {
  Dataset data = make_study_windows(rows, 1, width, targets, seed);
  data.input_shape = {width};
  return data;
}

Dataset make_study_windows(int64_t rows, int64_t steps, int64_t width, int64_t targets, uint64_t seed) {
  check_rows(rows, "study data");
  if (rows < 1 || steps < 1 || width < 1 || targets < 1)
    throw Error(Cause::usage,
                fmt::format("study data of {} rows, {} steps, {} features and {} targets", rows, steps, width, targets),
                "at least 1 of each");
  Dataset data;
  data.name = "study";
  data.num_rows = rows;
  data.input_width = steps * width;
  data.input_shape = {steps, width};
  data.output_width = targets;
  data.features.resize(static_cast<size_t>(rows * data.input_width));
  data.targets.resize(static_cast<size_t>(rows * targets));
  for (int64_t i = 0; i < width; ++i) data.feature_names.push_back(fmt::format("f{}", i));
  for (int64_t i = 0; i < targets; ++i) data.target_names.push_back(fmt::format("t{}", i));
  for (int64_t row = 0; row < rows; ++row) {
    float* const window = data.features.data() + row * data.input_width;
    fill_normal(window, data.input_width, row, kFeatureStream, seed);
    for (float* f = window; f < window + data.input_width; f += width) {
      // The draws of columns 1 and 2 are the noise of their mixtures.
      if (width > 1) f[1] = 0.7f * f[0] + 0.3f * f[1];
      if (width > 2) f[2] = 0.5f * f[0] - 0.3f * f[1] + 0.4f * f[2];
    }
    fill_normal(data.targets.data() + row * targets, targets, row, kTargetStream, seed);
  }
  return data;
}

std::vector<int32_t> permutation(int64_t n, uint64_t seed, uint64_t epoch) {
  check_rows(n, "permutation");
  std::vector<int32_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  for (uint64_t i = static_cast<uint64_t>(n); i > 1; --i) {  // Fisher-Yates
    const Philox4 bits = philox(seed, low(i), low(epoch), high(epoch), kPermutationStream);
    const uint64_t draw = static_cast<uint64_t>(bits.v[0]) << 32 | bits.v[1];
    std::swap(order[i - 1], order[draw % i]);  // 64 random bits: the bias is below 2^-32
  }
  return order;
}

Split split_rows(int64_t rows, double validation_fraction, uint64_t seed) {
  check_rows(rows, "split");
  if (!(validation_fraction >= 0.0 && validation_fraction < 1.0))
    throw Error(Cause::usage, fmt::format("validation fraction {}", validation_fraction), "a fraction in [0, 1)");
  const bool validate = validation_fraction > 0.0;
  if (rows < (validate ? 2 : 1))
    throw Error(Cause::usage, fmt::format("{} rows cannot be split into training and validation", rows),
                "more rows, or no validation part");
  int64_t num_validation = std::llround(static_cast<double>(rows) * validation_fraction);
  if (validate) num_validation = std::clamp<int64_t>(num_validation, 1, rows - 1);
  const std::vector<int32_t> order = permutation(rows, seed, kSplitEpoch);
  Split split;
  split.validation.assign(order.begin(), order.begin() + num_validation);
  split.train.assign(order.begin() + num_validation, order.end());
  std::sort(split.train.begin(), split.train.end());
  std::sort(split.validation.begin(), split.validation.end());
  return split;
}

Split split_data(const Dataset& data, double validation_fraction, uint64_t seed) {
  Split split = split_rows(data.num_rows, validation_fraction, seed);
  if (data.overlap == 0 || split.validation.empty()) return split;
  const auto num_validation = static_cast<int64_t>(split.validation.size());
  const int64_t num_train = data.num_rows - num_validation - data.overlap;
  if (num_train < 1)
    throw Error(Cause::usage,
                fmt::format("{}: of {} rows that overlap {} others each, none is left to train on beside {} for "
                            "validation",
                            data.name, data.num_rows, data.overlap, num_validation),
                "more rows, or `validation_fraction=0`");
  split.train.resize(static_cast<size_t>(num_train));
  std::iota(split.train.begin(), split.train.end(), 0);
  std::iota(split.validation.begin(), split.validation.end(), static_cast<int32_t>(data.num_rows - num_validation));
  return split;
}

void standardise(Dataset& dataset, const std::vector<int32_t>& fit_rows) {
  // [steps, features] of a window, else [1, input_width]
  const bool windows = dataset.input_shape.size() == 2;
  const auto width = static_cast<size_t>(windows ? dataset.input_shape[1] : dataset.input_width);
  const size_t steps = windows ? static_cast<size_t>(dataset.input_shape[0]) : 1;
  if (fit_rows.empty()) throw Error(Cause::usage, "standardise: no rows to fit on", "at least one training row");
  for (const int32_t row : fit_rows)
    if (row < 0 || row >= dataset.num_rows)
      throw Error(Cause::usage, fmt::format("standardise: row {} of {}", row, dataset.num_rows), "rows of the dataset");
  const auto n = static_cast<double>(fit_rows.size() * steps);
  std::vector<double> mean(width, 0.0), variance(width, 0.0);
  std::vector<char> constant(width, 1);
  const float* first = dataset.features.data() + static_cast<size_t>(fit_rows[0]) * steps * width;
  const auto each_fit_step = [&](auto&& visit) {
    for (const int32_t row : fit_rows)
      for (size_t step = 0; step < steps; ++step)
        visit(dataset.features.data() + (static_cast<size_t>(row) * steps + step) * width);
  };
  each_fit_step([&](const float* f) {
    for (size_t c = 0; c < width; ++c) {
      mean[c] += static_cast<double>(f[c]) / n;
      if (f[c] != first[c]) constant[c] = 0;
    }
  });
  each_fit_step([&](const float* f) {  // second pass, to avoid cancellation for values far from zero
    for (size_t c = 0; c < width; ++c) variance[c] += (f[c] - mean[c]) * (f[c] - mean[c]) / n;
  });
  for (size_t row = 0; row < static_cast<size_t>(dataset.num_rows) * steps; ++row) {
    float* f = dataset.features.data() + row * width;
    for (size_t c = 0; c < width; ++c)
      f[c] = constant[c] ? 0.0f : static_cast<float>((f[c] - mean[c]) / std::sqrt(variance[c]));
  }
}

}  // namespace amdahl
