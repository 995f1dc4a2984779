// Images and labels from .npy files.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <numeric>

#include "amdahl/sensor.h"
#include "errors.h"
#include "train/dataset.h"

namespace amdahl {
namespace {

class Images : public testing::Test {
 protected:
  const std::string folder_ = testing::TempDir() + "amdahl_images_" + std::to_string(getpid()) + "/";
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  template <class T>
  std::string save(const char* name, DType type, std::vector<int64_t> shape, const std::vector<T>& values) const {
    save_array(folder_ + name, FileArray{"", type, std::move(shape), values.data()});
    return folder_ + name;
  }
  void expect_refused(const std::string& images, const std::string& labels, Cause cause, const char* words) const {
    const Error error = error_of([&] { load_images(images, labels); });
    EXPECT_EQ(error.cause(), cause) << error.line();
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << words << " in " << error.line();
    EXPECT_FALSE(error.remedy().empty());
  }
};

TEST_F(Images, BytesBecomeFractions) {
  std::vector<uint8_t> pixels(2 * 3 * 4 * 3);
  std::iota(pixels.begin(), pixels.end(), uint8_t{184});  // up to 255
  const std::string images = save("x.npy", DType::u8, {2, 3, 4, 3}, pixels);
  const Dataset data = load_images(images, save<int32_t>("y.npy", DType::i32, {2}, {3, 0}));
  EXPECT_EQ(data.name, "x");
  EXPECT_EQ(data.num_rows, 2);
  EXPECT_EQ(data.input_shape, (std::vector<int64_t>{3, 4, 3}));
  EXPECT_EQ(data.input_width, 36);
  EXPECT_EQ(data.output_width, 4);
  EXPECT_EQ(data.targets, (std::vector<float>{3, 0}));
  EXPECT_EQ(data.class_names, (std::vector<std::string>{"0", "1", "2", "3"}));
  ASSERT_EQ(data.features.size(), pixels.size());
  for (size_t i = 0; i < pixels.size(); ++i) EXPECT_EQ(data.features[i], static_cast<float>(pixels[i] / 255.0));
  EXPECT_EQ(data.features.back(), 1.0f);
}

TEST_F(Images, FloatsStayAndEveryTypeOfLabelIsRead) {
  const std::vector<float> pixels{-1.5f, 0, 300, 4};
  const std::string images = save("x.npy", DType::f32, {4, 1, 1, 1}, pixels);
  const std::vector<float> labels{0, 1, 1, 2};
  EXPECT_EQ(load_images(images, save<uint8_t>("a.npy", DType::u8, {4}, {0, 1, 1, 2})).targets, labels);
  EXPECT_EQ(load_images(images, save<int64_t>("b.npy", DType::i64, {4}, {0, 1, 1, 2})).targets, labels);
  EXPECT_EQ(load_images(images, folder_ + "b.npy").features, pixels);
}

TEST_F(Images, OtherArraysAreRefusedByName) {
  const std::string images = save<float>("x.npy", DType::f32, {2, 1, 1, 2}, {1, 2, 3, 4});
  const std::string labels = save<int32_t>("y.npy", DType::i32, {2}, {0, 1});
  EXPECT_EQ(load_images(images, labels).num_rows, 2);
  expect_refused(folder_ + "none.npy", labels, Cause::usage, "none.npy");
  expect_refused(save<float>("flat.npy", DType::f32, {2, 2}, {1, 2, 3, 4}), labels, Cause::data_corrupt,
                 "flat.npy: it is [2, 2] of type '<f4'");
  expect_refused(save<double>("d.npy", DType::f64, {2, 1, 1, 1}, {1, 2}), labels, Cause::data_corrupt, "'<f8'");
  expect_refused(images, save<float>("f.npy", DType::f32, {2}, {0, 1}), Cause::data_corrupt, "f.npy");
  expect_refused(images, save<int32_t>("s.npy", DType::i32, {3}, {0, 1, 2}), Cause::data_corrupt,
                 "3 labels for the 2 images");
  expect_refused(images, save<int32_t>("n.npy", DType::i32, {2}, {0, -1}), Cause::data_corrupt, "row 1 is class -1");
  const float nan = std::numeric_limits<float>::quiet_NaN();
  expect_refused(save<float>("nan.npy", DType::f32, {2, 1, 1, 2}, {1, 2, 3, nan}), labels, Cause::non_finite,
                 "image 1");
  std::ofstream(folder_ + "cut.npy", std::ios::binary) << "\x93NUMPY";
  expect_refused(folder_ + "cut.npy", labels, Cause::data_corrupt, "cut.npy");
}

}  // namespace
}  // namespace amdahl
