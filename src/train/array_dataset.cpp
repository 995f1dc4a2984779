#include "train/dataset.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace amdahl {
namespace {

constexpr int64_t kMostClasses = 1'000'000;

[[noreturn]] void refuse(const char* name, const std::string& is, const std::string& wanted) {
  throw Error(Cause::usage, fmt::format("`{}` {}", name, is), wanted);
}

void check_place(const char* name, const ConstTensor& tensor) {
  if (tensor.device != kHostMemory) refuse(name, fmt::format("lies on GPU {}", tensor.device), "host memory");
  if (!tensor.is_dense())
    refuse(name, fmt::format("has strides [{}]", fmt::join(tensor.strides, ", ")), "a dense array");
  for (const int64_t extent : tensor.shape)
    if (extent < 1 || extent > std::numeric_limits<int32_t>::max())
      refuse(name, fmt::format("has shape [{}]", fmt::join(tensor.shape, ", ")), "1 to 2,147,483,647 along each axis");
  if (!tensor.data) refuse(name, "has no data", "a pointer to its memory");
}

std::vector<float> copy_floats(const char* name, const ConstTensor& tensor) {
  if (tensor.dtype != DType::f32) refuse(name, fmt::format("is {}", to_string(tensor.dtype)), "f32");
  if (tensor.shape.size() != 2)
    refuse(name, fmt::format("has {} dimensions", tensor.shape.size()), "2: rows and columns");
  const auto* begin = static_cast<const float*>(tensor.data);
  std::vector<float> values(begin, begin + tensor.num_elements());
  const auto bad = std::find_if(values.begin(), values.end(), [](float value) { return !std::isfinite(value); });
  if (bad != values.end()) {
    const int64_t at = bad - values.begin();
    throw Error(Cause::non_finite,
                fmt::format("`{}` row {}, column {} is {}", name, at / tensor.shape[1], at % tensor.shape[1], *bad),
                "finite numbers");
  }
  return values;
}

template <class Integer>
void copy_classes(const ConstTensor& labels, Dataset& data) {
  const auto* classes_of = static_cast<const Integer*>(labels.data);
  int64_t classes = 0;
  for (int64_t row = 0; row < labels.shape[0]; ++row) {
    const auto label = static_cast<int64_t>(classes_of[row]);
    if (label < 0 || label >= kMostClasses)
      refuse("labels", fmt::format("row {} is class {}", row, label), "class numbers from 0 to 999,999");
    classes = std::max(classes, label + 1);
    data.targets.push_back(static_cast<float>(label));
  }
  data.loss = LossKind::softmax_cross_entropy;
  data.output_width = std::max<int64_t>(2, classes);
  for (int64_t c = 0; c < data.output_width; ++c) data.class_names.push_back(fmt::format("{}", c));
}

}  // namespace

Dataset make_array_dataset(const ConstTensor& features, const ConstTensor& labels) {
  check_place("features", features);
  check_place("labels", labels);
  Dataset data;
  data.name = "arrays";
  data.features = copy_floats("features", features);
  data.num_rows = features.shape[0];
  data.input_width = features.shape[1];
  data.input_shape = {data.input_width};
  if (labels.shape.empty() || labels.shape[0] != data.num_rows)
    refuse("labels", fmt::format("has shape [{}]", fmt::join(labels.shape, ", ")),
           fmt::format("{} rows, as `features`", data.num_rows));
  if (labels.shape.size() == 1 && labels.dtype == DType::i32) {
    copy_classes<int32_t>(labels, data);
  } else if (labels.shape.size() == 1 && labels.dtype == DType::i64) {
    copy_classes<int64_t>(labels, data);
  } else {
    data.targets = copy_floats("labels", labels);
    data.output_width = labels.shape[1];
  }
  for (int64_t i = 0; i < data.input_width; ++i) data.feature_names.push_back(fmt::format("f{}", i));
  const int64_t columns = data.loss == LossKind::mse ? data.output_width : 1;
  for (int64_t i = 0; i < columns; ++i) data.target_names.push_back(fmt::format("t{}", i));
  return data;
}

}  // namespace amdahl
