// How many calls a sample of the sensor benchmark has.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "amdahl/sensor.h"

namespace amdahl {
namespace {

/// Of every record.
std::vector<double> calls_of_samples(const std::string& mode, int calls) {
  SensorBenchConfig config;
  config.op = "fuse";
  config.mode = mode;
  config.devices = {2};
  config.engine.backend = "cpu";
  config.batch_sizes = {2};
  config.streams = {{2, 3}};
  config.targets = 1;
  config.samples = 2;
  config.calls = calls;
  Observer observer;
  std::vector<double> found;
  for (const Record& record : run_sensor_bench(config, observer).records)
    for (const Series& series : record.series)
      if (series.name == "calls_per_sample") found.push_back(series.samples.front());
  return found;
}

TEST(SensorBenchCalls, ASampleHasAsManyAsTakeAMillisecond) {
  for (const std::string mode : {"data", "hetero"}) {
    const std::vector<double> found = calls_of_samples(mode, 0);
    EXPECT_FALSE(found.empty());
    for (const double calls : found) EXPECT_GT(calls, 4) << mode << ": two rows of three numbers take a microsecond";
  }
}

TEST(SensorBenchCalls, ASampleHasAsManyAsAreAskedFor) {
  for (const std::string mode : {"data", "hetero"}) {
    const std::vector<double> found = calls_of_samples(mode, 3);
    EXPECT_FALSE(found.empty());
    for (const double calls : found) EXPECT_EQ(calls, 3) << mode;
  }
}

}  // namespace
}  // namespace amdahl
