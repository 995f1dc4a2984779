// The sensor benchmark on data that are in memory already.
#include <gtest/gtest.h>

#include "amdahl/sensor.h"

namespace amdahl {
namespace {

SensorBenchConfig small_bench() {
  SensorBenchConfig config;
  config.engine.backend = "cpu";
  config.samples = 2;
  config.calls = 1;
  return config;
}

PointCloud four_points() {
  PointCloud cloud;
  cloud.num_points = 4;
  cloud.num_features = 1;
  cloud.points = {0, 0, 0, 1, 2, 3, 4, 4, 4, 0.5f, 0.5f, 0.5f};
  cloud.features = {1, 2, 3, 4};
  return cloud;
}

std::string refusal_of(const SensorBenchConfig& config) {
  Observer observer;
  try {
    run_sensor_bench(config, observer);
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::usage);
    return error.line();
  }
  ADD_FAILURE() << "not refused";
  return {};
}

TEST(SensorBenchMemory, CloudsAndStreamsOfTheCaller) {
  Observer observer;
  SensorBenchConfig config = small_bench();
  config.grid = {4, 4, 4};
  config.cloud = std::make_shared<const PointCloud>(four_points());
  const SensorBenchOutcome clouds = run_sensor_bench(config, observer);
  EXPECT_FALSE(clouds.failed) << to_text(clouds);
  ASSERT_EQ(clouds.records.size(), 4u);
  EXPECT_EQ(std::get<std::string>(clouds.records[0].axes.at("input")), "memory");
  EXPECT_EQ(std::get<int64_t>(clouds.records[0].axes.at("points")), 4);
  SensorBenchConfig fuse = small_bench();
  fuse.op = "fuse";
  fuse.targets = 3;
  fuse.tracks = std::make_shared<const std::vector<Trajectories>>(
      std::vector<Trajectories>{{"a", 1, 2, 1, {0, 1}, {5, 6}, {}, {}}, {"b", 1, 1, 2, {0.5}, {7, 8}, {}, {}}});
  const SensorBenchOutcome rows = run_sensor_bench(fuse, observer);
  EXPECT_FALSE(rows.failed) << to_text(rows);
  EXPECT_EQ(std::get<std::string>(rows.records.at(0).axes.at("workload")), "b1 2x1+1x2->3 memory");
}

TEST(SensorBenchMemory, ShapesThatAreNotThoseOfTheNumbersAreRefused) {
  SensorBenchConfig config = small_bench();
  PointCloud cloud = four_points();
  cloud.points.pop_back();
  config.cloud = std::make_shared<const PointCloud>(cloud);
  EXPECT_NE(refusal_of(config).find("points has 11 numbers and its shape 12"), std::string::npos);
  cloud = four_points();
  cloud.num_features = 2;
  config.cloud = std::make_shared<const PointCloud>(cloud);
  EXPECT_NE(refusal_of(config).find("features has 4 numbers"), std::string::npos);
  SensorBenchConfig fuse = small_bench();
  fuse.op = "fuse";
  fuse.tracks = std::make_shared<const std::vector<Trajectories>>();
  EXPECT_NE(refusal_of(fuse).find("no stream"), std::string::npos);
  fuse.tracks =
      std::make_shared<const std::vector<Trajectories>>(std::vector<Trajectories>{{"a", 1, 2, 1, {0}, {5, 6}, {}, {}}});
  EXPECT_NE(refusal_of(fuse).find("times has 1 numbers"), std::string::npos);
}

}  // namespace
}  // namespace amdahl
