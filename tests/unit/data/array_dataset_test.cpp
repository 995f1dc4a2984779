// Data sets from arrays of the caller: every value arrives, and every array that cannot be one is named with its
// defect.
#include "train/dataset.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "errors.h"

namespace amdahl {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInfinity = std::numeric_limits<float>::infinity();

ConstTensor floats(const std::vector<float>& values, std::vector<int64_t> shape) {
  return {values.data(), DType::f32, std::move(shape)};
}
template <class T>
ConstTensor classes(const std::vector<T>& values) {
  return {values.data(), sizeof(T) == 4 ? DType::i32 : DType::i64, {static_cast<int64_t>(values.size())}};
}

void expect_array_refused(const ConstTensor& features, const ConstTensor& labels, Cause cause,
                          const std::vector<std::string>& words) {
  const Error error = error_of([&] { static_cast<void>(make_array_dataset(features, labels)); });
  EXPECT_EQ(error.cause(), cause) << error.line();
  for (const std::string& word : words) EXPECT_NE(error.line().find(word), std::string::npos) << error.line();
  EXPECT_FALSE(error.remedy().empty());
}

TEST(ArrayDataset, RegressionKeepsEveryValue) {
  std::mt19937 random(181);
  for (int trial = 0; trial < 50; ++trial) {
    const auto rows = static_cast<int64_t>(1 + random() % 20), width = static_cast<int64_t>(1 + random() % 6),
               outputs = static_cast<int64_t>(1 + random() % 3);
    std::vector<float> x(static_cast<size_t>(rows * width)), y(static_cast<size_t>(rows * outputs));
    for (std::vector<float>* values : {&x, &y})
      for (float& value : *values) value = static_cast<float>(static_cast<int32_t>(random())) / 7;
    const Dataset data = make_array_dataset(floats(x, {rows, width}), floats(y, {rows, outputs}));
    EXPECT_EQ(data.features, x);
    EXPECT_EQ(data.targets, y);
    EXPECT_EQ(data.loss, LossKind::mse);
    EXPECT_EQ(data.num_rows, rows);
    EXPECT_EQ(data.input_width, width);
    EXPECT_EQ(data.output_width, outputs);
    EXPECT_EQ(static_cast<int64_t>(data.feature_names.size()), width);
    EXPECT_EQ(static_cast<int64_t>(data.target_names.size()), outputs);
    EXPECT_TRUE(data.class_names.empty());
  }
}

template <class T>
void expect_classes(std::mt19937& random) {
  for (int trial = 0; trial < 30; ++trial) {
    std::vector<T> labels(1 + random() % 30);
    T most = 0;
    for (T& label : labels)
      most = std::max(most, label = static_cast<T>(random() % (1 + static_cast<uint32_t>(trial))));
    const std::vector<float> x(labels.size() * 2, 0.5f);
    const Dataset data = make_array_dataset(floats(x, {static_cast<int64_t>(labels.size()), 2}), classes(labels));
    EXPECT_EQ(data.loss, LossKind::softmax_cross_entropy);
    EXPECT_EQ(data.output_width, std::max<int64_t>(2, static_cast<int64_t>(most) + 1))
        << "one class is still two outputs";
    EXPECT_EQ(static_cast<int64_t>(data.class_names.size()), data.output_width);
    ASSERT_EQ(data.targets.size(), labels.size());
    for (size_t i = 0; i < labels.size(); ++i) EXPECT_EQ(data.targets[i], static_cast<float>(labels[i]));
    EXPECT_EQ(data.target_names.size(), 1u);
  }
}

TEST(ArrayDataset, WholeNumbersAreClasses) {
  std::mt19937 random(182);
  expect_classes<int32_t>(random);
  expect_classes<int64_t>(random);
}

TEST(ArrayDataset, NamesWhatCannotBe) {
  const std::vector<float> x(6, 1.0f), y(3, 1.0f);
  const ConstTensor good = floats(x, {3, 2}), labels = floats(y, {3, 1});
  const auto changed = [](ConstTensor tensor, const auto& change) {
    change(tensor);
    return tensor;
  };
  expect_array_refused(changed(good, [](ConstTensor& t) { t.device = 1; }), labels, Cause::usage,
                       {"`features` lies on GPU 1"});
  expect_array_refused(changed(good,
                               [](ConstTensor& t) {
                                 t.strides = {1, 3};
                               }),
                       labels, Cause::usage, {"`features` has strides [1, 3]"});
  expect_array_refused(changed(good, [](ConstTensor& t) { t.data = nullptr; }), labels, Cause::usage,
                       {"`features` has no data"});
  expect_array_refused(changed(good, [](ConstTensor& t) { t.dtype = DType::f64; }), labels, Cause::usage,
                       {"`features` is f64"});
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{0, 2}, {3, 0}, {-3, 2}, {3, int64_t{1} << 31}})
    expect_array_refused(changed(good, [&](ConstTensor& t) { t.shape = shape; }), labels, Cause::usage,
                         {fmt::format("`features` has shape [{}]", fmt::join(shape, ", "))});
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{6}, {3, 1, 2}, {}})
    expect_array_refused(changed(good, [&](ConstTensor& t) { t.shape = shape; }), labels, Cause::usage,
                         {fmt::format("`features` has {} dimensions", shape.size())});
  expect_array_refused(good,
                       changed(labels,
                               [](ConstTensor& t) {
                                 t.shape = {2, 1};
                               }),
                       Cause::usage, {"`labels` has shape [2, 1]", "3 rows"});
  expect_array_refused(good, changed(labels, [](ConstTensor& t) { t.shape = {}; }), Cause::usage,
                       {"`labels` has shape []"});
  expect_array_refused(good, changed(labels, [](ConstTensor& t) { t.shape = {3}; }), Cause::usage,
                       {"`labels` has 1 dimensions"});
  expect_array_refused(good, changed(labels, [](ConstTensor& t) { t.dtype = DType::u8; }), Cause::usage,
                       {"`labels` is u8"});
  expect_array_refused(good, changed(labels, [](ConstTensor& t) { t.device = 0; }), Cause::usage,
                       {"`labels` lies on GPU 0"});
}

TEST(ArrayDataset, NamesTheRowAndColumnOfWhatIsNotFinite) {
  std::mt19937 random(183);
  for (int trial = 0; trial < 60; ++trial) {
    std::vector<float> x(12, 1.0f), y(8, 1.0f);
    const bool in_features = random() % 2 == 0;
    std::vector<float>& values = in_features ? x : y;
    const size_t at = random() % values.size(), columns = in_features ? 3 : 2;
    values[at] = std::vector<float>{kNan, kInfinity, -kInfinity}[random() % 3];
    expect_array_refused(
        floats(x, {4, 3}), floats(y, {4, 2}), Cause::non_finite,
        {fmt::format("`{}` row {}, column {}", in_features ? "features" : "labels", at / columns, at % columns)});
  }
}

TEST(ArrayDataset, NamesTheRowOfAClassThatCannotBe) {
  const std::vector<float> x(8, 1.0f);
  for (const int64_t wrong :
       {int64_t{-1}, int64_t{1'000'000}, std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()}) {
    const std::vector<int64_t> labels{0, 1, wrong, 2};
    expect_array_refused(floats(x, {4, 2}), classes(labels), Cause::usage,
                         {fmt::format("row 2 is class {}", wrong), "999,999"});
  }
}

}  // namespace
}  // namespace amdahl
