#include "train/dataset.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

namespace amdahl {
namespace {

double mean_of(const Dataset& data, int64_t column) {
  double sum = 0;
  for (int64_t r = 0; r < data.num_rows; ++r) sum += data.features[static_cast<size_t>(r * data.input_width + column)];
  return sum / static_cast<double>(data.num_rows);
}

double covariance(const Dataset& data, int64_t a, int64_t b) {
  const double mean_a = mean_of(data, a), mean_b = mean_of(data, b);
  double sum = 0;
  for (int64_t r = 0; r < data.num_rows; ++r) {
    const float* f = data.features.data() + r * data.input_width;
    sum += (f[a] - mean_a) * (f[b] - mean_b);
  }
  return sum / static_cast<double>(data.num_rows);
}

TEST(StudyDataset, HasTheStudysShape) {
  const Dataset data = make_study_dataset(10'000, 50, 3, 42);
  EXPECT_EQ(data.num_rows, 10'000);
  EXPECT_EQ(data.features.size(), 500'000u);
  EXPECT_EQ(data.targets.size(), 30'000u);
  EXPECT_EQ(data.feature_names.size(), 50u);
  EXPECT_EQ(data.target_names.size(), 3u);
  EXPECT_EQ(data.loss, LossKind::mse);
  EXPECT_TRUE(std::all_of(data.features.begin(), data.features.end(), [](float v) { return std::isfinite(v); }));
}

TEST(StudyDataset, HasTheStudysCorrelations) {
  const Dataset data = make_study_dataset(100'000, 6, 3, 42);
  const double tolerance = 0.02;  // six standard errors of a covariance of 100,000 rows
  EXPECT_NEAR(mean_of(data, 0), 0.0, tolerance);
  EXPECT_NEAR(covariance(data, 0, 0), 1.0, tolerance);
  EXPECT_NEAR(covariance(data, 1, 1), 0.58, tolerance);  // .7^2 + .3^2
  EXPECT_NEAR(covariance(data, 0, 1), 0.7, tolerance);
  EXPECT_NEAR(covariance(data, 0, 2), 0.5 - 0.3 * 0.7, tolerance);
  EXPECT_NEAR(covariance(data, 2, 2), 0.25 + 0.09 * 0.58 - 0.3 * 0.7 + 0.16, tolerance);
  EXPECT_NEAR(covariance(data, 3, 3), 1.0, tolerance);
  EXPECT_NEAR(covariance(data, 3, 4), 0.0, tolerance);
  EXPECT_NEAR(covariance(data, 0, 5), 0.0, tolerance);
}

TEST(StudyDataset, TargetsAreStandardNormalAndIndependent) {
  const Dataset data = make_study_dataset(100'000, 1, 2, 7);
  double sum = 0, squares = 0, cross = 0, with_feature = 0, fourth = 0;
  for (size_t r = 0; r < 100'000; ++r) {
    const double a = data.targets[2 * r], b = data.targets[2 * r + 1];
    sum += a;
    squares += a * a;
    fourth += a * a * a * a;
    cross += a * b;
    with_feature += a * data.features[r];
  }
  EXPECT_NEAR(sum / 1e5, 0.0, 0.02);
  EXPECT_NEAR(squares / 1e5, 1.0, 0.03);
  EXPECT_NEAR(fourth / 1e5, 3.0, 0.2);
  EXPECT_NEAR(cross / 1e5, 0.0, 0.02);
  EXPECT_NEAR(with_feature / 1e5, 0.0, 0.02);
}

TEST(StudyDataset, DependsOnTheSeedAndNotOnTheNumberOfRows) {
  const Dataset few = make_study_dataset(10, 5, 3, 42), many = make_study_dataset(1'000, 5, 3, 42);
  EXPECT_TRUE(std::equal(few.features.begin(), few.features.end(), many.features.begin()));
  EXPECT_TRUE(std::equal(few.targets.begin(), few.targets.end(), many.targets.begin()));
  EXPECT_NE(few.features, make_study_dataset(10, 5, 3, 43).features);
  const std::set<float> distinct(many.features.begin(), many.features.end());
  EXPECT_GT(distinct.size(), 4'900u);
}

TEST(StudyDataset, TakesAnySmallShape) {
  for (const int64_t width : {1, 2, 3, 4, 5}) EXPECT_EQ(make_study_dataset(1, width, 1, 0).input_width, width);
  EXPECT_THROW(make_study_dataset(0, 50, 3, 0), Error);
  EXPECT_THROW(make_study_dataset(10, 0, 3, 0), Error);
  EXPECT_THROW(make_study_dataset(10, 50, 0, 0), Error);
}

TEST(Permutation, IsAPermutationOfItsOwnSeedAndEpoch) {
  for (const int64_t n : {0, 1, 2, 1'000}) {
    std::vector<int32_t> order = permutation(n, 42, 3);
    EXPECT_EQ(order, permutation(n, 42, 3));
    std::sort(order.begin(), order.end());
    std::vector<int32_t> expected(static_cast<size_t>(n));
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(order, expected);
  }
  EXPECT_NE(permutation(1'000, 42, 3), permutation(1'000, 42, 4));
  EXPECT_NE(permutation(1'000, 42, 3), permutation(1'000, 43, 3));
  EXPECT_THROW(permutation(-1, 0, 0), Error);
}

TEST(Permutation, IsUniform) {
  // Every one of the 24 orders of 4 things, 24,000 draws: chi-squared with 23 degrees of freedom.
  std::vector<int> counts(256, 0);
  for (uint64_t epoch = 0; epoch < 24'000; ++epoch) {
    const std::vector<int32_t> order = permutation(4, 5, epoch);
    ++counts[static_cast<size_t>(order[0] * 64 + order[1] * 16 + order[2] * 4 + order[3])];
  }
  double chi_squared = 0;
  int seen = 0;
  for (const int count : counts) {
    if (count == 0) continue;
    ++seen;
    chi_squared += (count - 1000.0) * (count - 1000.0) / 1000.0;
  }
  EXPECT_EQ(seen, 24);
  EXPECT_LT(chi_squared, 49.7);  // p = 0.001
}

TEST(SplitRows, CoversEveryRowOnce) {
  const Split split = split_rows(1'797, 0.2, 42);
  EXPECT_EQ(split.validation.size(), 359u);
  EXPECT_TRUE(std::is_sorted(split.train.begin(), split.train.end()));
  EXPECT_TRUE(std::is_sorted(split.validation.begin(), split.validation.end()));
  std::vector<int32_t> all = split.train;
  all.insert(all.end(), split.validation.begin(), split.validation.end());
  std::sort(all.begin(), all.end());
  for (int32_t i = 0; i < 1'797; ++i) ASSERT_EQ(all[static_cast<size_t>(i)], i);
  EXPECT_EQ(split_rows(1'797, 0.2, 42).validation, split.validation);
  EXPECT_NE(split_rows(1'797, 0.2, 43).validation, split.validation);
}

TEST(SplitRows, KeepsBothPartsNonEmpty) {
  EXPECT_TRUE(split_rows(5, 0.0, 1).validation.empty());
  EXPECT_EQ(split_rows(100, 0.001, 1).validation.size(), 1u);
  EXPECT_EQ(split_rows(2, 0.999, 1).train.size(), 1u);
  EXPECT_THROW(split_rows(1, 0.2, 1), Error);
  EXPECT_THROW(split_rows(0, 0.0, 1), Error);
  EXPECT_THROW(split_rows(10, 1.0, 1), Error);
  EXPECT_THROW(split_rows(10, -0.1, 1), Error);
  EXPECT_THROW(split_rows(10, std::nan(""), 1), Error);
}

TEST(Standardise, UsesTheFitRowsOnly) {
  Dataset data;
  data.num_rows = 4;
  data.input_width = 3;
  data.features = {1, 5, 1e7f, 3, 5, 1e7f + 1, 2, 5, 1e7f + 2, 100, 9, 0};
  standardise(data, {0, 1, 2});
  const float z = static_cast<float>(1.0 / std::sqrt(2.0 / 3.0));
  const std::vector<float> expected{-z, 0, -z, z, 0, 0, 0, 0, z, 98 * z, 0, static_cast<float>(-(1e7 + 1) * z)};
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(data.features[i], expected[i], 1e-5 * std::max(1.0f, std::abs(expected[i]))) << i;
}

TEST(Standardise, MakesConstantFeaturesZero) {
  Dataset data;
  data.num_rows = 3;
  data.input_width = 1;
  data.features = {0.1f, 0.1f, 0.1f};
  standardise(data, {0, 1, 2});
  EXPECT_EQ(data.features, (std::vector<float>{0, 0, 0}));
  EXPECT_THROW(standardise(data, {}), Error);
  EXPECT_THROW(standardise(data, {3}), Error);
}

}  // namespace
}  // namespace amdahl
