// CPU ops with random data, and errors against float64.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "comm/world.h"
#include "ops/ops.h"
#include "small_job.h"

namespace amdahl::test {

inline constexpr double kTolerance = 2e-6;  // relative, in norm

class CpuOpsTest : public ::testing::Test {
 protected:
  CpuOpsTest()
      : devices_(make_cpu_devices(1)), ops_(make_cpu_ops(*devices_[0], {})), stream_(devices_[0]->make_stream("s")) {}

  std::vector<float> random(int64_t count) {
    std::normal_distribution<float> normal;
    std::vector<float> values(static_cast<size_t>(count));
    for (float& value : values) value = normal(generator_);
    return values;
  }
  void finish() { stream_->synchronize(Deadline::after_seconds(60)); }

  std::mt19937_64 generator_{5};
  std::vector<std::unique_ptr<Device>> devices_;
  std::unique_ptr<Ops> ops_;
  std::unique_ptr<Stream> stream_;
};

inline double error_of(const std::vector<float>& ours, const std::vector<double>& wanted) {
  double difference = 0, norm = 0;
  EXPECT_EQ(ours.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    const double d = static_cast<double>(ours[i]) - wanted[i];
    difference += d * d;
    norm += wanted[i] * wanted[i];
  }
  return std::sqrt(difference) / std::max(std::sqrt(norm), 1e-30);
}

inline std::vector<double> widened(const std::vector<float>& values) { return {values.begin(), values.end()}; }

}  // namespace amdahl::test
