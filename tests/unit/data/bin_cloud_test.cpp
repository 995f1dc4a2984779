// Headerless clouds: what their names, sizes and numbers say about their rows.
#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <random>

#include "sensor/files/bin_cloud.h"
#include "sensor_files.h"

namespace amdahl {
namespace {

template <class T>
std::string rows_of(const std::vector<std::vector<double>>& rows) {
  std::string bytes;
  for (const std::vector<double>& row : rows)
    for (const double value : row) bytes += bytes_of(static_cast<T>(value));
  return bytes;
}

/// A scan as a lidar turns: smooth angles, noisy distances, then the features.
std::vector<std::vector<double>> scan(uint32_t seed, int points,
                                      const std::vector<std::function<double(int)>>& features) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> part(0, 1);
  std::vector<std::vector<double>> rows;
  for (int i = 0; i < points; ++i) {
    const double angle = 6.28 * i / points, distance = 3 + 40 * part(random);
    rows.push_back({distance * std::cos(angle), distance * std::sin(angle), -1.7 + 2.5 * part(random) * part(random)});
    for (const auto& feature : features) rows.back().push_back(feature(static_cast<int>(random() % 100'000)));
  }
  return rows;
}

const auto kReflectance = [](int draw) { return draw % 100 / 100.0; };
const auto kIntensity = [](int draw) { return static_cast<double>(draw % 256); };
const auto kRing = [](int draw) { return static_cast<double>(draw % 32); };
const auto kTime = [](int draw) { return draw * 1e-6; };
const auto kZero = [](int) { return 0.0; };

PointCloud load(const std::string& path, int64_t columns, const std::string& type = "") {
  SensorFileOptions options;
  options.bin_columns = columns;
  options.bin_type = type;
  return load_point_cloud(path, options);
}

const std::vector<std::vector<double>> kNuscenes{
    {10, 0, 0, 100, 0}, {0, 10, 0, 50, 1}, {0, 0, 1, 20, 2}, {5, 5, 1, 7, 3}};

TEST_F(SensorFiles, NuscenesHasFiveColumns) {
  const PointCloud found = cloud("a.pcd.bin", rows_of<float>(kNuscenes));
  EXPECT_EQ(found.format, "nuScenes");
  EXPECT_EQ(found.num_points, 4);
  EXPECT_EQ(found.feature_names, (std::vector<std::string>{"intensity", "ring"}));
  EXPECT_EQ(found.points, (std::vector<float>{10, 0, 0, 0, 10, 0, 0, 0, 1, 5, 5, 1}));
  EXPECT_EQ(found.features, (std::vector<float>{100, 0, 50, 1, 20, 2, 7, 3}));
  const PointCloud told = load(write("a.bin", rows_of<float>(kNuscenes)), 5);
  EXPECT_EQ(told.points, found.points);
  EXPECT_TRUE(told.warnings.empty());
  const PointCloud few = cloud("a.bin", rows_of<float>(kNuscenes));  // 80 bytes: too few to tell
  ASSERT_EQ(few.warnings.size(), 1u);
  EXPECT_NE(few.warnings[0].find("may be 4 of 5"), std::string::npos) << few.warnings[0];
}

TEST_F(SensorFiles, BinOptionsSayColumnsAndType) {
  const std::string path = write("a.bin", rows_of<double>({{1.5, 2, 3}, {4, 5, 6}}));
  const PointCloud found = load(path, 3, "f64");
  EXPECT_EQ(found.points, (std::vector<float>{1.5f, 2, 3, 4, 5, 6}));
  EXPECT_EQ(found.format, "bin");
  EXPECT_EQ(load(write("b.bin", rows_of<float>({{1, 2, 3, 4, 5, 6}})), 6).features, (std::vector<float>{4, 5, 6}));
  EXPECT_EQ(load(write("c.pcd.bin", rows_of<float>({{1, 2, 3, 4}})), 4).num_points, 1);
  refused(Cause::data_corrupt, {"48 bytes", "5 doubles"}, [&] { load(path, 5, "f64"); });
  refused(Cause::usage, {"`bin_columns` is 2"}, [&] { load(path, 2); });
  refused(Cause::usage, {"`bin_type` is f16"}, [&] { load(path, 4, "f16"); });
  refused(Cause::usage, {"`bin_columns`", "a.ply"}, [&] { load(write("a.ply", ""), 4); });
}

TEST_F(SensorFiles, BinNamesThatAreNoCloud) {
  refused(Cause::data_corrupt, {"labels"}, [&] { cloud("a_lidarseg.bin", std::string(160, '\1')); });
}

TEST_F(SensorFiles, SizesOfOtherRowsNameThem) {
  refused(Cause::data_corrupt, {"60 bytes", "`bin_columns=5`", "`bin_columns=3`"}, [&] {
    cloud("a.bin", rows_of<float>({{1, 2, 3, 4, 5}, {1, 2, 3, 4, 5}, {1, 2, 3, 4, 5}}));
  });
}

TEST_F(SensorFiles, RowsOfOtherColumnsAreFoundByTheirNumbers) {
  struct Case {
    const char* name;
    std::vector<std::function<double(int)>> features;
  };
  const Case cases[] = {{"three", {}},
                        {"nuScenes", {kIntensity, kRing}},
                        {"no intensity", {kZero, kRing}},
                        {"with time", {kReflectance, kTime}},
                        {"six", {kIntensity, kRing, kTime}},
                        {"eight", {kIntensity, kRing, kTime, kZero, kReflectance}}};
  for (const Case& tried : cases)
    for (uint32_t seed = 1; seed <= 5; ++seed)
      for (const int points : {64, 400, 4000}) {
        SCOPED_TRACE(fmt::format("{}, seed {}, {} points", tried.name, seed, points));
        const std::string bytes = rows_of<float>(scan(seed, points, tried.features));
        const size_t columns = 3 + tried.features.size();
        const LayoutDoubt doubt = doubt_layout(bytes, 4);
        EXPECT_NE(doubt.remedy.find(fmt::format("`bin_columns={}`;", columns)), std::string::npos) << doubt.remedy;
        EXPECT_EQ(doubt_layout(bytes, static_cast<int64_t>(columns)).what, "");
      }
}

TEST_F(SensorFiles, KittiIsNotDoubted) {
  for (uint32_t seed = 1; seed <= 40; ++seed)
    for (const int points : {20, 64, 400, 4000}) {
      SCOPED_TRACE(fmt::format("seed {}, {} points", seed, points));
      EXPECT_EQ(doubt_layout(rows_of<float>(scan(seed, points, {kReflectance})), 4).what, "");
      EXPECT_EQ(doubt_layout(rows_of<float>(scan(seed, points, {kZero})), 4).what, "");
      EXPECT_EQ(doubt_layout(rows_of<float>(scan(seed, points, {kIntensity})), 4).what, "");
    }
}

TEST_F(SensorFiles, NanIsNoSignOfDoubles) {
  const double nan = std::nan("");
  EXPECT_EQ(cloud("a.bin", rows_of<float>({{nan, 1, 1, 1}})).num_points, 1);
  EXPECT_EQ(cloud("a.bin", rows_of<float>({{nan, nan, nan, 0}, {1, 2, 3, 4}, {nan, nan, nan, 0}})).num_points, 3);
}

TEST_F(SensorFiles, DoublesAreNotReadAsFloats) {
  const auto rounded = [](std::vector<std::vector<double>> rows, double (*round)(double)) {
    for (auto& row : rows)
      for (double& value : row) value = round(value);
    return rows;
  };
  const auto rows = scan(7, 200, {kReflectance});
  for (const auto& [name, data] :
       {std::pair{"doubles", rows},
        {"floats before", rounded(rows, [](double v) { return static_cast<double>(static_cast<float>(v)); })},
        {"whole", rounded(rows, [](double v) { return std::round(v); })}}) {
    SCOPED_TRACE(name);
    for (const size_t points : {4, 200})
      refused(Cause::data_corrupt, {"a.bin", "doubles", "`bin_type=f64`"}, [&, data = data] {
        cloud("a.bin", rows_of<double>({data.begin(), data.begin() + points}));
      });
    EXPECT_EQ(load(write("a.bin", rows_of<double>(data)), 0, "f64").num_points, 200);
  }
  std::string text;
  for (int i = 0; i < 100; ++i) text += fmt::format("{}.5 -{}.25 0.{}\n", i, 100 - i, i);
  text.resize(text.size() / 16 * 16);
  refused(Cause::data_corrupt, {"this is text"}, [&] { cloud("a.bin", text); });
  std::mt19937 random(3);
  std::string noise(1600, '\0');
  for (char& byte : noise) byte = static_cast<char>(random());
  refused(Cause::data_corrupt, {"no coordinates"}, [&] { cloud("a.bin", noise); });
}

TEST_F(SensorFiles, FeaturesSayWhatTheyLoseAsFloats) {
  std::string bytes;
  for (int i = 0; i < 4; ++i)
    for (const double value : {1.0, 2.0, 3.0, 1.7e9 + 0.1 * i}) bytes += bytes_of(value);
  const PointCloud found = load(write("a.bin", bytes), 4, "f64");
  ASSERT_EQ(found.feature_warnings.size(), 1u);
  EXPECT_NE(found.feature_warnings[0].find("differs by about 0.1"), std::string::npos) << found.feature_warnings[0];
}

}  // namespace
}  // namespace amdahl
