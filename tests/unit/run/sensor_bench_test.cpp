// What the sensor benchmark measures on and judges by: inputs that do not depend on the split, distributions that are
// what they are called, and a check that no wrong element of its sample passes.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>

#include "comm/world.h"
#include "sensor/measure/check.h"
#include "sensor/measure/data.h"
#include "sensor/measure/workload.h"
#include "waits.h"

namespace amdahl {
namespace {

SensorJob cloud_job(VoxelMode mode) {
  SensorJob job;
  job.num_items = 3000;
  job.grid.size = {9, 8, 7};
  job.grid.voxel_size = 0.5f;
  job.options.mode = mode;
  job.num_features = mode == VoxelMode::mean || mode == VoxelMode::max ? 3 : 0;
  return job;
}

SensorJob fuse_job(DType type) {
  SensorJob job;
  job.operation = SensorOperation::fuse;
  job.type = type;
  job.num_items = 5;
  job.streams = {{10, 6}, {1, 3}};
  job.num_targets = 7;
  return job;
}

/// What the CPU's operations make of it on one device.
std::vector<char> output_of(const SensorJob& job) {
  const auto devices = make_cpu_devices(1);
  const auto comm = make_lone_communicator(*devices.front());
  const auto ops = make_cpu_sensor_ops(*devices.front());
  const auto stream = devices.front()->make_stream("sensor");
  SensorWorkload workload({*devices.front(), *ops, *comm}, job, {0, job.num_items}, MergeMethod::none, 2, *stream,
                          soon());
  workload.call(*stream, 1);
  return workload.output(*stream, 1, soon());
}

double inside_of(PointDistribution distribution) {
  SensorJob job = cloud_job(VoxelMode::count);
  job.distribution = distribution;
  job.num_items = 100'000;
  job.grid = VoxelGrid{};
  const SensorItems made = make_items(job, {0, job.num_items});
  int64_t inside = 0;
  for (size_t i = 0; i < made.points.size(); i += 3) {
    bool in = true;
    for (size_t axis = 0; axis < 3; ++axis) in = in && made.points[i + axis] >= -10 && made.points[i + axis] < 2.8f;
    inside += in;
  }
  return static_cast<double>(inside) / static_cast<double>(job.num_items);
}

TEST(SensorData, ItemsDoNotDependOnTheSplit) {
  for (const SensorJob& job : {cloud_job(VoxelMode::max), fuse_job(DType::bf16)}) {
    const SensorItems whole = make_items(job, {0, job.num_items});
    SensorItems joined;
    joined.stream_data.resize(job.streams.size()), joined.stream_times.resize(job.streams.size());
    const auto join = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
    for (const ItemRange& range : split_by_weight(job.num_items, {2, 0, 1, 3})) {
      const SensorItems part = make_items(job, range);
      join(joined.points, part.points), join(joined.features, part.features), join(joined.targets, part.targets);
      for (size_t i = 0; i < part.stream_data.size(); ++i) {
        join(joined.stream_data[i], part.stream_data[i]);
        join(joined.stream_times[i], part.stream_times[i]);
      }
    }
    EXPECT_EQ(joined.points, whole.points);
    EXPECT_EQ(joined.features, whole.features);
    EXPECT_EQ(joined.targets, whole.targets);
    EXPECT_EQ(joined.stream_data, whole.stream_data);
    EXPECT_EQ(joined.stream_times, whole.stream_times);
  }
}

TEST(SensorData, TimesRiseAndTargetsLieAmongThem) {
  const SensorJob job = fuse_job(DType::f32);
  const SensorItems made = make_items(job, {0, job.num_items});
  for (size_t i = 0; i < made.stream_times[0].size(); ++i) {
    EXPECT_GE(made.stream_times[0][i], 0);
    EXPECT_LE(made.stream_times[0][i], 1);
    if (i % 10 == 0) continue;
    EXPECT_GT(made.stream_times[0][i], made.stream_times[0][i - 1]);
  }
  for (const float target : made.targets) EXPECT_TRUE(target >= 0 && target <= 1);
}

TEST(SensorData, FeaturesAreNormal) {
  SensorJob job = cloud_job(VoxelMode::max);
  job.num_items = 50'000;
  const SensorItems made = make_items(job, {0, job.num_items});
  double sum = 0, squares = 0;
  const int64_t count = job.num_items * job.num_features;
  for (int64_t i = 0; i < count; ++i) {
    const double value = double{element_at(made.features.data(), DType::f32, i)};
    sum += value, squares += value * value;
  }
  EXPECT_NEAR(sum / static_cast<double>(count), 0, 0.015);  // 5.8 standard errors
  EXPECT_NEAR(squares / static_cast<double>(count), 1, 0.02);
}

TEST(SensorData, DistributionsAreWhatTheyAreCalled) {
  EXPECT_GT(inside_of(PointDistribution::uniform), 0.999);
  EXPECT_GT(inside_of(PointDistribution::corner), 0.999);
  EXPECT_NEAR(inside_of(PointDistribution::readme), 0.0328, 0.003);  // 5 standard errors
  const double clusters = inside_of(PointDistribution::clusters);
  EXPECT_GT(clusters, 0.7);
  EXPECT_LT(clusters, 1.0);
  EXPECT_NEAR(inside_of(PointDistribution::scan), clusters, 0.02);
}

/// Different voxels that 20,000 points lie in.
size_t occupied(PointDistribution distribution) {
  SensorJob job = cloud_job(VoxelMode::count);
  job.distribution = distribution;
  job.num_items = 20'000;
  job.grid = VoxelGrid{};
  const SensorItems made = make_items(job, {0, job.num_items});
  std::set<std::array<int, 3>> voxels;
  for (size_t i = 0; i < made.points.size(); i += 3) {
    std::array<int, 3> voxel{};
    for (size_t axis = 0; axis < 3; ++axis)
      voxel[axis] = static_cast<int>(std::floor((made.points[i + axis] + 10) / 0.1f));
    voxels.insert(voxel);
  }
  return voxels.size();
}

TEST(SensorData, ClustersShareVoxels) {
  EXPECT_GT(occupied(PointDistribution::uniform), 19'000u);
  EXPECT_LT(occupied(PointDistribution::clusters), 15'000u);
}

/// The points of a scan lie where those of clusters do, but neighbours of the cloud are neighbours in space: those of
/// one beam in directions next to each other, mostly.
TEST(SensorData, AScanIsInOrder) {
  const auto mean_step = [](PointDistribution distribution) {
    SensorJob job = cloud_job(VoxelMode::count);
    job.distribution = distribution;
    job.num_items = 20'000;
    const SensorItems made = make_items(job, {0, job.num_items});
    constexpr size_t kTurned = size_t{32} * 3;  // the same beam, one direction on
    double sum = 0;
    for (size_t i = 0; i + kTurned < made.points.size(); i += 3) {
      double square = 0;
      for (size_t axis = 0; axis < 3; ++axis)
        square += std::pow(double{made.points[i + kTurned + axis]} - double{made.points[i + axis]}, 2);
      sum += std::sqrt(square);
    }
    return sum / (static_cast<double>(made.points.size() - kTurned) / 3);
  };
  EXPECT_LT(mean_step(PointDistribution::scan), mean_step(PointDistribution::clusters) / 5);
}

/// Every single wrong element is found, where all are looked at.
void expect_every_fault_found(const SensorJob& job, size_t element) {
  std::vector<char> output = output_of(job);
  const ItemRange all{0, job.num_items};
  const CheckResult right = check_output(job, all, output.data());
  EXPECT_EQ(right.fault, "");
  ASSERT_GT(right.num_checked, 0);
  for (size_t at = 0; at < output.size(); at += 97 * element) {
    const char good = output[at + element - 1];
    output[at + element - 1] = static_cast<char>(good ^ 0x41);  // sign or high bits
    EXPECT_NE(check_output(job, all, output.data()).fault, "") << "byte " << at;
    output[at + element - 1] = good;
  }
}

TEST(SensorCheck, FindsWrongVoxels) {
  for (const VoxelMode mode : {VoxelMode::count, VoxelMode::occupancy, VoxelMode::mean, VoxelMode::max})
    for (const VoxelLayout layout : {VoxelLayout::xyz, VoxelLayout::zyx})
      for (const bool deterministic : {false, true}) {
        SensorJob job = cloud_job(mode);
        job.options.layout = layout;
        job.options.deterministic = deterministic;
        SCOPED_TRACE(workload_text(job) + " " + std::string(to_string(mode)));
        expect_every_fault_found(job, sizeof(float));
      }
  expect_every_fault_found(cloud_job(VoxelMode::bitmask), 1);
}

TEST(SensorCheck, FindsAPointLeftOut) {
  for (const VoxelMode mode : {VoxelMode::count, VoxelMode::mean}) {
    SensorJob fewer = cloud_job(mode);
    const ItemRange all{0, fewer.num_items};
    fewer.num_items -= 1;
    EXPECT_NE(check_output(cloud_job(mode), all, output_of(fewer).data()).fault, "");
  }
}

TEST(SensorCheck, FindsWrongRows) {
  for (const DType type : {DType::f32, DType::bf16, DType::f16})
    expect_every_fault_found(fuse_job(type), size_of(type));
}

TEST(SensorWorkloadText, NamesWhatIsComputed) {
  SensorJob job = cloud_job(VoxelMode::max);
  EXPECT_EQ(workload_text(job), "p3000 9x8x7 f3");
  job.distribution = PointDistribution::clusters;
  EXPECT_EQ(workload_text(job), "p3000 9x8x7 f3 clusters");
  EXPECT_EQ(workload_text(fuse_job(DType::f32)), "b5 10x6+1x3->7");
}

TEST(SensorWorkload, UsefulBytesCountEveryByteOnce) {
  const SensorJob cloud = cloud_job(VoxelMode::mean);
  EXPECT_EQ(useful_bytes(cloud, 1), 3000 * (12 + 12) + 9 * 8 * 7 * 3 * 4);
  EXPECT_EQ(useful_bytes(cloud, 4), 3000 * (12 + 12) + 4 * 9 * 8 * 7 * 3 * 4);
  EXPECT_EQ(useful_bytes(fuse_job(DType::bf16), 1), 5 * (63 * 2 + 11 * 4 + 7 * 4 + 7 * 9 * 2));
}

TEST(SensorWorkload, ColdCopiesExceedTwiceTheCache) {
  const auto devices = make_cpu_devices(1);
  for (const int64_t items : {int64_t{1000}, int64_t{3000}, int64_t{50'000'000}}) {
    const SensorJob job = cloud_job(VoxelMode::count);
    const int copies = SensorWorkload::cold_variants(*devices.front(), job, items);
    EXPECT_GE(copies, 2);
    EXPECT_GE(static_cast<double>(copies - 1) * static_cast<double>(SensorWorkload::variant_bytes(job, items)),
              2.0 * (64 << 20));
    EXPECT_TRUE(SensorWorkload::leaves_cache(
        *devices.front(),
        static_cast<double>(copies) * static_cast<double>(SensorWorkload::variant_bytes(job, items))));
  }
}

TEST(SensorWorkload, ColdCopiesOfTheSmallestWorkloadsEnd) {
  const auto devices = make_cpu_devices(1);
  SensorJob job = cloud_job(VoxelMode::count);
  job.grid.size = {2, 2, 2};
  const int copies = SensorWorkload::cold_variants(*devices.front(), job, 1);
  EXPECT_EQ(copies, 32768);
  EXPECT_FALSE(SensorWorkload::leaves_cache(
      *devices.front(), static_cast<double>(copies) * static_cast<double>(SensorWorkload::variant_bytes(job, 1))));
}

}  // namespace
}  // namespace amdahl
