// Windows: of the study's generator, of a CSV file, their split and their scaling.
#include "train/windows.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "errors.h"
#include "train/csv.h"

namespace amdahl {
namespace {

/// Ten rows of two features; row r is {r, 100 + r}, its target r / 2.
Dataset ten_rows() {
  Dataset rows;
  rows.name = "ten";
  rows.num_rows = 10;
  rows.input_width = 2;
  rows.input_shape = {2};
  rows.output_width = 1;
  for (int r = 0; r < 10; ++r) {
    rows.features.insert(rows.features.end(), {static_cast<float>(r), static_cast<float>(100 + r)});
    rows.targets.push_back(static_cast<float>(r) / 2);
  }
  return rows;
}

TEST(StudyWindows, HaveTheStudysValues) {
  const Dataset one = make_study_windows(20, 1, 5, 3, 42), flat = make_study_dataset(20, 5, 3, 42);
  EXPECT_EQ(one.features, flat.features);
  EXPECT_EQ(one.targets, flat.targets);
  EXPECT_EQ(one.input_shape, (std::vector<int64_t>{1, 5}));
  EXPECT_EQ(flat.input_shape, (std::vector<int64_t>{5}));
}

TEST(StudyWindows, DependOnSeedAndRowOnly) {
  const Dataset few = make_study_windows(4, 96, 50, 3, 42), many = make_study_windows(9, 96, 50, 3, 42);
  EXPECT_EQ(many.input_width, 96 * 50);
  EXPECT_EQ(many.target_floats(), 3);
  EXPECT_TRUE(std::equal(few.features.begin(), few.features.end(), many.features.begin()));
  EXPECT_TRUE(std::equal(few.targets.begin(), few.targets.end(), many.targets.begin()));
  EXPECT_NE(few.features, make_study_windows(4, 96, 50, 3, 43).features);
}

TEST(StudyWindows, EveryStepHasTheStudysCorrelations) {
  const Dataset data = make_study_windows(20'000, 4, 3, 1, 7);
  for (int64_t step = 0; step < 4; ++step) {
    double product = 0, between = 0;
    for (int64_t r = 0; r < data.num_rows; ++r) {
      const float* f = data.features.data() + r * data.input_width;
      product += static_cast<double>(f[step * 3]) * f[step * 3 + 1];
      between += static_cast<double>(f[step * 3]) * f[(step + 1) % 4 * 3];
    }
    EXPECT_NEAR(product / 20'000, 0.7, 0.04) << step;  // five standard errors
    EXPECT_NEAR(between / 20'000, 0.0, 0.04) << step;  // steps are independent
  }
}

TEST(StudyWindows, RefuseEmptyShapes) {
  EXPECT_THROW(make_study_windows(1, 0, 1, 1, 0), Error);
  EXPECT_THROW(make_study_windows(1, 1, 0, 1, 0), Error);
}

TEST(SlideWindows, TakeTheTargetOfTheLastRow) {
  const Dataset windows = slide_windows(ten_rows(), 4, 1, "ten");
  EXPECT_EQ(windows.num_rows, 7);
  EXPECT_EQ(windows.input_shape, (std::vector<int64_t>{4, 2}));
  EXPECT_EQ(windows.input_width, 8);
  EXPECT_EQ(windows.overlap, 3);
  for (int64_t w = 0; w < 7; ++w) {
    for (int64_t step = 0; step < 4; ++step) {
      EXPECT_EQ(windows.features[static_cast<size_t>(w * 8 + step * 2)], static_cast<float>(w + step));
      EXPECT_EQ(windows.features[static_cast<size_t>(w * 8 + step * 2 + 1)], static_cast<float>(100 + w + step));
    }
    EXPECT_EQ(windows.targets[static_cast<size_t>(w)], static_cast<float>(w + 3) / 2);
  }
}

TEST(SlideWindows, StrideAndWholeFile) {
  const Dataset strided = slide_windows(ten_rows(), 4, 3, "ten");
  EXPECT_EQ(strided.num_rows, 3);  // rows 0-3, 3-6, 6-9
  EXPECT_EQ(strided.features[8], 3.0f);
  EXPECT_EQ(strided.overlap, 1);
  EXPECT_EQ(slide_windows(ten_rows(), 10, 1, "ten").num_rows, 1);
  EXPECT_EQ(slide_windows(ten_rows(), 4, 4, "ten").overlap, 0);
  EXPECT_EQ(slide_windows(ten_rows(), 1, 1, "ten").features, ten_rows().features);
}

TEST(SlideWindows, RefuseAWindowLongerThanTheData) {
  const Error error = error_of([] { slide_windows(ten_rows(), 11, 1, "ten.csv"); });
  EXPECT_EQ(error.cause(), Cause::usage);
  EXPECT_NE(std::string(error.what()).find("ten.csv: a window of 11 rows is longer than the data, 10 rows"),
            std::string::npos)
      << error.line();
  EXPECT_THROW(slide_windows(ten_rows(), 0, 1, "ten"), Error);
  EXPECT_THROW(slide_windows(ten_rows(), 2, 0, "ten"), Error);
}

TEST(SplitData, KeepsOverlappingRowsApart) {
  const Dataset windows = slide_windows(ten_rows(), 3, 1, "ten");  // 8 windows
  const Split split = split_data(windows, 0.25, 42);
  EXPECT_EQ(split.validation, (std::vector<int32_t>{6, 7}));
  EXPECT_EQ(split.train, (std::vector<int32_t>{0, 1, 2, 3}));  // windows 4 and 5 have rows 6 and 7 of the file
  EXPECT_EQ(split_data(windows, 0, 42).train.size(), 8u);
  EXPECT_THROW(split_data(windows, 0.9, 42), Error);
}

TEST(SplitData, IsThatOfTheRowsWithoutOverlap) {
  const Dataset data = make_study_dataset(100, 2, 1, 1);
  EXPECT_EQ(split_data(data, 0.2, 42).validation, split_rows(100, 0.2, 42).validation);
  EXPECT_EQ(split_data(data, 0.2, 42).train, split_rows(100, 0.2, 42).train);
}

TEST(Standardise, ScalesAFeatureOfAWindowOverAllItsSteps) {
  Dataset data;
  data.num_rows = 2;
  data.input_width = 4;
  data.input_shape = {2, 2};
  data.features = {1, 7, 3, 7, 5, 7, 7, 7};
  standardise(data, {0, 1});
  const float unit = static_cast<float>(1 / std::sqrt(5.0));  // of 1, 3, 5, 7: mean 4, variance 5
  const std::vector<float> expected{-3 * unit, 0, -unit, 0, unit, 0, 3 * unit, 0};
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(data.features[i], expected[i], 1e-6) << i;
}

class CsvWindows : public testing::Test {
 protected:
  std::string path_ = testing::TempDir() + "amdahl_windows_" + std::to_string(getpid()) + ".csv";
  void TearDown() override { std::filesystem::remove(path_); }
  CsvOptions file(std::string_view bytes, int64_t window) const {
    std::ofstream(path_, std::ios::binary) << bytes;
    CsvOptions options;
    options.path = path_;
    options.target_columns = {"y"};
    options.window = window;
    return options;
  }
};

TEST_F(CsvWindows, AreConsecutiveRowsInTheOrderOfTheFile) {
  const Dataset data = load_csv(file("a,k,y\n1,p,0.5\n2,q,1.5\n3,p,2.5\n4,p,3.5\n", 3));
  EXPECT_EQ(data.num_rows, 2);
  EXPECT_EQ(data.input_shape, (std::vector<int64_t>{3, 3}));  // a, k=p, k=q
  EXPECT_EQ(data.feature_names, (std::vector<std::string>{"a", "k=p", "k=q"}));
  EXPECT_EQ(data.targets, (std::vector<float>{2.5f, 3.5f}));
  EXPECT_EQ(data.features, (std::vector<float>{1, 1, 0, 2, 0, 1, 3, 1, 0, 2, 0, 1, 3, 1, 0, 4, 1, 0}));
}

TEST_F(CsvWindows, OfClassesHaveOneClassEach) {
  const Dataset data = load_csv(file("a,y\n1,no\n2,yes\n3,no\n", 2));
  EXPECT_EQ(data.loss, LossKind::softmax_cross_entropy);
  EXPECT_EQ(data.targets, (std::vector<float>{1, 0}));
  EXPECT_EQ(data.target_floats(), 1);
}

TEST_F(CsvWindows, RefuseAFileThatIsShorter) {
  const CsvOptions options = file("a,y\n1,0.5\n2,1.5\n", 96);
  const Error error = error_of([&] { load_csv(options); });
  EXPECT_EQ(error.cause(), Cause::usage);
  EXPECT_NE(std::string(error.what()).find("a window of 96 rows is longer than the data, 2 rows"), std::string::npos);
}

TEST_F(CsvWindows, RefuseToJoinTheRowsAroundADroppedOne) {
  CsvOptions options = file("a,y\n1,0.5\n,1.5\n3,2.5\n4,3.5\n", 2);
  options.missing = CsvOptions::Missing::drop_row;
  EXPECT_EQ(error_of([&] { load_csv(options); }).cause(), Cause::usage);
  options.missing = CsvOptions::Missing::mean;
  EXPECT_EQ(load_csv(options).num_rows, 3);
}

}  // namespace
}  // namespace amdahl
