// A job whose items are shared by weight over 2 to 4 virtual devices, some limited to a fraction of their speed and
// some without a share, gives what one device gives: gathered in host memory and by the communicator, bit for bit, but
// for the f32 mean.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>

#include "comm/world.h"
#include "ops/ops.h"
#include "sensor/measure/check.h"
#include "sensor/measure/part.h"
#include "sensor/ops/sm_limited.h"

namespace amdahl::test {
namespace {

constexpr double kHeteroTimeout = 30;

struct HeteroCase {
  std::string name;
  SensorJob job;
  PartsMeet meet;
};

SensorJob cloud_job(VoxelMode mode, bool deterministic) {
  SensorJob job;
  job.num_items = 3001;
  job.grid.size = {9, 7, 5};  // 315 voxels: the last mask word is not full
  job.options.mode = mode;
  job.options.deterministic = deterministic;
  job.num_features = mode == VoxelMode::mean || mode == VoxelMode::max ? 3 : 0;
  return job;
}

SensorJob stream_job(SensorOperation operation, DType type) {
  SensorJob job;
  job.operation = operation;
  job.type = type;
  job.num_items = 13;
  job.streams = {{11, 5}};
  if (operation == SensorOperation::fuse) job.streams.push_back({17, 3});
  job.num_targets = 7;
  return job;
}

std::vector<HeteroCase> hetero_cases() {
  std::vector<HeteroCase> all;
  for (const PartsMeet meet : {PartsMeet::host, PartsMeet::communicator}) {
    const std::string where = meet == PartsMeet::host ? "host" : "communicator";
    for (const VoxelMode mode :
         {VoxelMode::count, VoxelMode::occupancy, VoxelMode::bitmask, VoxelMode::mean, VoxelMode::max})
      for (const bool deterministic : {false, true})
        if (!deterministic || mode == VoxelMode::mean)
          all.push_back({fmt::format("{}{}_{}", to_string(mode), deterministic ? "_deterministic" : "", where),
                         cloud_job(mode, deterministic), meet});
    all.push_back({"fuse_" + where, stream_job(SensorOperation::fuse, DType::f32), meet});
    all.push_back({"fuse_bf16_" + where, stream_job(SensorOperation::fuse, DType::bf16), meet});
    all.push_back({"resample_" + where, stream_job(SensorOperation::resample, DType::f16), meet});
  }
  return all;
}

struct Results {
  std::vector<char> one, shared, again;  // by one device; by shares; by the same shares in reverse
};

/// Shares change between calls of the same object, as under the policy that refreshes them.
Results results_of(const HeteroCase& c, const std::vector<double>& weights) {
  const int world = static_cast<int>(weights.size());
  const auto devices = make_cpu_devices(world);
  const auto comms = make_inproc_communicators(world, kHeteroTimeout);
  std::vector<ItemRange> ranges = split_by_weight(c.job.num_items, weights);
  const std::vector<ItemRange> reversed = split_by_weight(c.job.num_items, {weights.rbegin(), weights.rend()});
  HostResult host(c.job, c.meet, world);
  Results results;
  run_rank_threads(
      world,
      [&](int rank) {
        const auto i = static_cast<size_t>(rank);
        const std::unique_ptr<Ops> ops = make_cpu_ops(*devices[i], {});
        RankContext context{rank, world, *devices[i], *ops, *comms[i]};
        const std::unique_ptr<SensorOps> sensor =
            limit_speed(*devices[i], make_cpu_sensor_ops(*devices[i]), rank == 1 ? 0.4 : 1.0);
        SensorPart part(context, *sensor, make_cpu_transfer, c.job, c.meet, host, kHeteroTimeout);
        part.sample(ranges[i], 2);
        const std::vector<char> shared = part.result(ranges[i]), again = part.result(reversed[i]);
        if (rank != 0) {
          EXPECT_TRUE(shared.empty() && again.empty());
          return;
        }
        results = {part.result_alone(), shared, again};
      },
      [&](const Error& error) {
        for (const auto& comm : comms) comm->abort(error);
      });
  return results;
}

void expect_result(const HeteroCase& c, const std::vector<char>& got, const std::vector<char>& one) {
  ASSERT_EQ(got.size(), one.size());
  ASSERT_FALSE(got.empty());
  EXPECT_EQ(check_output(c.job, {0, c.job.num_items}, got.data()).fault, "");
  if (c.job.options.mode == VoxelMode::mean && !c.job.options.deterministic && c.job.voxelizes()) return;
  EXPECT_EQ(std::memcmp(got.data(), one.data(), one.size()), 0);
}

std::string hetero_name(const ::testing::TestParamInfo<HeteroCase>& info) { return info.param.name; }

class SensorShares : public ::testing::TestWithParam<HeteroCase> {};

TEST_P(SensorShares, GiveOneDevicesResult) {
  const HeteroCase& c = GetParam();
  for (const std::vector<double>& weights : std::vector<std::vector<double>>{
           {1, 1}, {0.9, 0.1}, {0, 1}, {1, 0}, {1, 1, 1}, {5, 0, 2}, {0, 0, 1}, {1, 2, 3, 4}, {0, 1, 0, 0}}) {
    SCOPED_TRACE(fmt::format("{} shares, the first {}", weights.size(), weights.front()));
    const Results results = results_of(c, weights);
    expect_result(c, results.shared, results.one);
    expect_result(c, results.again, results.one);
  }
}

INSTANTIATE_TEST_SUITE_P(Jobs, SensorShares, ::testing::ValuesIn(hetero_cases()), hetero_name);

}  // namespace
}  // namespace amdahl::test
