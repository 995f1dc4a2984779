// Jobs of the sensor benchmark whose items come from files.
#include "sensor/measure/input.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "base/small_floats.h"
#include "sensor/measure/check.h"
#include "sensor/ops/sensor_ops.h"
#include "sensor/ops/shard.h"
#include "special_floats.h"

namespace amdahl {
namespace {

std::shared_ptr<const PointCloud> random_cloud(int64_t points, int64_t features) {
  std::mt19937_64 random(5);
  std::normal_distribution<float> normal;
  PointCloud cloud;
  cloud.num_points = points;
  cloud.num_features = features;
  for (int64_t i = 0; i < 3 * points; ++i) cloud.points.push_back(10 * normal(random));
  for (int64_t i = 0; i < features * points; ++i) cloud.features.push_back(normal(random));
  return std::make_shared<const PointCloud>(std::move(cloud));
}

SensorJob cloud_job(std::shared_ptr<const PointCloud> cloud, VoxelMode mode, int64_t features) {
  SensorJob job;
  job.num_items = cloud->num_points;
  job.options.mode = mode;
  job.num_features = features;
  job.grid = grid_around(*cloud, {8, 6, 4}, 0, "cloud");
  job.input = "cloud.ply";
  job.cloud = std::move(cloud);
  return job;
}

TEST(SensorInput, PartsOfACloudAreTheCloud) {
  const auto cloud = random_cloud(101, 3);
  SensorJob job = cloud_job(cloud, VoxelMode::mean, 2);  // the first two of three features
  const SensorItems whole = make_items(job, {0, 101});
  EXPECT_EQ(whole.points, cloud->points);
  EXPECT_EQ(element_at(whole.features.data(), job.type, 2 * 100 + 1), cloud->features[3 * 100 + 1]);
  std::vector<float> points;
  std::vector<std::byte> features;
  for (const ItemRange range : split_evenly(101, 4)) {
    const SensorItems part = make_items(job, range);
    points.insert(points.end(), part.points.begin(), part.points.end());
    features.insert(features.end(), part.features.begin(), part.features.end());
  }
  EXPECT_EQ(points, whole.points);
  EXPECT_EQ(features, whole.features);
  job.type = DType::bf16;
  const SensorItems narrow = make_items(job, {7, 8});
  EXPECT_EQ(element_at(narrow.features.data(), job.type, 0), to_float(to_bfloat(cloud->features[3 * 7])));
  EXPECT_EQ(workload_text(job), "p101 8x6x4 f2 cloud.ply");
}

TEST(SensorInput, TheLeastGridHoldsEveryPoint) {
  const auto cloud = random_cloud(500, 0);
  SensorJob job = cloud_job(cloud, VoxelMode::count, 0);
  EXPECT_EQ(drop_counts_of(job).num_outside, 0);
  job.grid = grid_around(*cloud, {8, 6, 4}, double{job.grid.voxel_size} / 2, "cloud");
  EXPECT_GT(drop_counts_of(job).num_outside, 0);
  EXPECT_LT(drop_counts_of(job).num_outside, 500);
  PointCloud lone;
  lone.num_points = 1;
  lone.points = {3, 4, 5};
  EXPECT_EQ(grid_around(lone, {4, 4, 4}, 0, "one point").voxel_size, 1);
  lone.points = {3, kNan, 5};
  EXPECT_THROW(grid_around(lone, {4, 4, 4}, 0, "no point"), Error);
}

/// What is not a number in a file, in every mode of every result.
TEST(SensorInput, NansAndInfinitiesAreCountedAndJudged) {
  auto odd = std::make_shared<PointCloud>(*random_cloud(400, 2));
  odd->points[3] = kNan;
  odd->points[7 * 3 + 2] = kNan;
  odd->points[9 * 3] = kInfinity;
  for (const size_t at : {20u, 41u, 300u}) odd->features[at] = kNan;
  odd->features[100] = kInfinity;
  odd->features[104] = -kInfinity;
  const auto devices = make_cpu_devices(1);
  const auto ops = make_cpu_sensor_ops(*devices.front());
  const auto stream = devices.front()->make_stream("sensor");
  for (const VoxelMode mode : {VoxelMode::count, VoxelMode::mean, VoxelMode::max})
    for (const bool deterministic : {false, true}) {
      SensorJob job = cloud_job(odd, mode, mode == VoxelMode::count ? 0 : 2);
      job.options.deterministic = deterministic;
      EXPECT_EQ(drop_counts_of(job).num_nan, 2);
      EXPECT_EQ(drop_counts_of(job).num_outside, 1);
      const SensorItems made = make_items(job, {0, 400});
      VoxelizeProblem problem;
      problem.points = made.points.data();
      problem.features = made.features.data();
      problem.num_points = 400;
      problem.num_features = job.num_features;
      problem.grid = job.grid;
      problem.options = job.options;
      std::vector<char> output(voxelize_output_bytes(problem));
      std::vector<char> scratch(ops->voxelize_scratch_bytes(problem) + 1);
      float scale = 0;
      problem.output = output.data();
      problem.scratch = scratch.data();
      problem.scale = &scale;
      ops->fixed_point_scale(*stream, problem, 400, &scale);
      ops->voxelize(*stream, problem);
      stream->synchronize(Deadline::after_seconds(20));
      EXPECT_EQ(check_output(job, {0, 400}, output.data()).fault, "") << to_string(mode) << deterministic;
      if (mode != VoxelMode::count) continue;
      output[output.size() / 2] ^= 0x41;
      EXPECT_NE(check_output(job, {0, 400}, output.data()).fault, "");
    }
}

SensorJob track_job() {
  constexpr double kSince1970 = 1.7e9;
  auto tracks = std::make_shared<std::vector<Trajectories>>();
  tracks->push_back({"a", 2, 4, 1, {0, 1, 2, 3, 10, 11, 12, 13}, {0, 1, 2, 3, 4, 5, 6, 7}, {}, {}});
  tracks->push_back({"b", 2, 2, 2, {0.5, 4, 10.5, 12.5}, {0, 1, 2, 3, 4, 5, 6, 7}, {}, {}});
  for (Trajectories& track : *tracks)
    for (double& time : track.times) time += kSince1970;
  SensorJob job;
  job.operation = SensorOperation::fuse;
  job.streams = {{4, 1}, {2, 2}};
  job.num_targets = 6;
  job.num_items = 5;
  job.input = "two.npz";
  job.tracks = std::move(tracks);
  return job;
}

TEST(SensorInput, RowsBeginAgainAndTargetsLieWhereAllStreamsHaveSamples) {
  const SensorJob job = track_job();
  const SensorItems made = make_items(job, {0, 5});
  EXPECT_EQ(made.stream_times[0], (std::vector<float>{0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3}));
  EXPECT_EQ(element_at(made.stream_data[1].data(), job.type, 4 + 1), 5);
  EXPECT_EQ(element_at(made.stream_data[1].data(), job.type, 8 + 1), 1);  // row 2 is row 0
  EXPECT_FLOAT_EQ(made.targets[0], 0.5f);
  EXPECT_FLOAT_EQ(made.targets[5], 3.0f);
  EXPECT_FLOAT_EQ(made.targets[6 + 5], 2.5f);
  const SensorItems last = make_items(job, {4, 5});
  EXPECT_EQ(last.targets, std::vector<float>(made.targets.end() - 6, made.targets.end()));
  EXPECT_EQ(workload_text(job), "b5 4x1+2x2->6 two.npz");
}

TEST(SensorInput, FusedRowsOfAFileAreJudged) {
  const SensorJob job = track_job();
  const SensorItems made = make_items(job, {0, job.num_items});
  const auto devices = make_cpu_devices(1);
  const auto ops = make_cpu_sensor_ops(*devices.front());
  const auto stream = devices.front()->make_stream("sensor");
  std::vector<float> output(static_cast<size_t>(job.num_items * job.num_targets * job.fused_width()));
  FuseProblem problem;
  for (size_t s = 0; s < job.streams.size(); ++s)
    problem.streams.push_back(
        {made.stream_data[s].data(), made.stream_times[s].data(), job.streams[s].length, job.streams[s].width});
  problem.targets = made.targets.data();
  problem.output = output.data();
  problem.batch = job.num_items;
  problem.num_targets = job.num_targets;
  ops->fuse(*stream, problem);
  stream->synchronize(Deadline::after_seconds(20));
  EXPECT_EQ(check_output(job, {0, job.num_items}, output.data()).fault, "");
  output[7] += 0.5f;
  EXPECT_NE(check_output(job, {0, job.num_items}, output.data()).fault, "");
}

}  // namespace
}  // namespace amdahl
