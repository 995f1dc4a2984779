// Counts as bytes and lists: what parts of a cloud leave on a GPU, added up, is the CPU's grid of the whole.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <random>

#include "gpu_support.h"
#include "sensor/ops/sensor_ops.h"
#include "sensor/ops/shard.h"

namespace amdahl::test {
namespace {

class ByteCountsTest : public GpuTest {
 protected:
  /// A part's buffer after voxelizing, other parts' lists being zeros.
  std::vector<uint8_t> part(const VoxelGrid& grid, const std::vector<float>& points, ItemRange range,
                            const ByteCounts& layout, int rank) {
    const auto buffer = device->allocate(layout.bytes());
    const auto there = device->allocate(std::max<size_t>(points.size(), 1) * sizeof(float));
    device->fill_zero(*stream, buffer->data(), buffer->bytes());
    if (!points.empty()) device->copy_in(*stream, there->data(), points.data(), points.size() * sizeof(float));
    VoxelizeProblem problem;
    problem.grid = grid;
    problem.options.mode = VoxelMode::count;
    problem.points = there->as<float>() + range.begin * 3;
    problem.num_points = range.count();
    problem.partial = true;
    problem.most_in_byte = layout.most();
    problem.overflow = layout.list(buffer->data(), rank);
    problem.output = buffer->data();
    const auto scratch = device->allocate(std::max<size_t>(ops().voxelize_scratch_bytes(problem), 1));
    problem.scratch = scratch->data();
    ops().voxelize(*stream, problem);
    return from_device(*buffer);
  }
  std::vector<uint8_t> from_device(Buffer& buffer) {
    std::vector<uint8_t> bytes(buffer.bytes());
    device->copy_out(*stream, bytes.data(), buffer.data(), bytes.size());
    stream->synchronize(Deadline::after_seconds(60));
    return bytes;
  }
  SensorOps& ops() {
    if (!ops_) ops_ = make_cuda_sensor_ops(*device);
    return *ops_;
  }

 private:
  std::unique_ptr<SensorOps> ops_;
};

std::vector<int32_t> counts_on_cpu(const VoxelGrid& grid, const std::vector<float>& points) {
  const auto devices = make_cpu_devices(1);
  const auto cpu_ops = make_cpu_sensor_ops(*devices.front());
  const auto cpu_stream = devices.front()->make_stream("sensor");
  std::vector<int32_t> counts(static_cast<size_t>(num_voxels(grid)));
  VoxelizeProblem problem;
  problem.grid = grid;
  problem.options.mode = VoxelMode::count;
  problem.points = points.data();
  problem.num_points = std::ssize(points) / 3;
  problem.output = counts.data();
  cpu_ops->voxelize(*cpu_stream, problem);
  cpu_stream->synchronize(Deadline::after_seconds(60));
  return counts;
}

/// Points spread out, a few of them outside, and every so many-th in two voxels.
std::vector<float> points_of(const VoxelGrid& grid, int64_t num_points, int64_t overfull_every) {
  std::mt19937_64 random(23);
  std::uniform_real_distribution<float> unit(-0.02f, 1.02f);
  std::vector<float> points;
  for (int64_t i = 0; i < num_points; ++i)
    for (size_t axis = 0; axis < 3; ++axis) {
      const auto size = static_cast<float>(grid.size[axis]);
      const float at = i % overfull_every != 1 ? unit(random) * size
                       : axis == 0             ? std::floor(unit(random) * 2) + 1.5f
                                               : 1.5f;
      points.push_back(grid.minimum[axis] + at * grid.voxel_size);
    }
  return points;
}

TEST_F(ByteCountsTest, PartsAddUpToTheWhole) {
  const VoxelGrid small{{-1, 2, 0}, 0.25f, {9, 7, 5}}, large{{0, 0, 0}, 1, {97, 128, 130}},
      wide{{0, 0, 0}, 1, {256, 250, 259}}, whole{{0, 0, 0}, 1, {256, 256, 256}}, slabs{{0, 0, 0}, 1, {520, 720, 720}};
  struct Case {
    VoxelGrid grid;
    int64_t num_points;
    int world_size;
    int64_t overfull_every = 3;
  };
  for (const Case& c : std::vector<Case>{{small, 0, 2},
                                         {small, 4000, 1},
                                         {small, 4001, 4},
                                         {small, 4001, 255},
                                         {large, 100'000, 3},
                                         {large, 2'000'003, 2},
                                         {wide, 4'000'000, 3},
                                         {whole, 3'000'000, 4, 400},
                                         {slabs, 60'000, 1}}) {
    SCOPED_TRACE(fmt::format("{} points in {} voxels, {} parts", c.num_points, num_voxels(c.grid), c.world_size));
    const std::vector<float> points = points_of(c.grid, c.num_points, c.overfull_every);
    const ByteCounts layout = ByteCounts::of(num_voxels(c.grid), c.world_size, c.num_points);
    std::vector<uint8_t> sum(layout.bytes());
    const std::vector<ItemRange> ranges = split_evenly(c.num_points, c.world_size);
    for (int rank = 0; rank < c.world_size; ++rank) {
      const std::vector<uint8_t> one = part(c.grid, points, ranges[static_cast<size_t>(rank)], layout, rank);
      std::transform(sum.begin(), sum.end(), one.begin(), sum.begin(), std::plus<uint8_t>());
    }
    const auto buffer = device->allocate(sum.size());
    const auto grid = device->allocate(static_cast<size_t>(num_voxels(c.grid)) * sizeof(int32_t));
    device->copy_in(*stream, buffer->data(), sum.data(), sum.size());
    ops().add_byte_counts(*stream, layout, buffer->data(), grid->as<int32_t>());
    const std::vector<uint8_t> counts = from_device(*grid), left = from_device(*buffer);
    const std::vector<int32_t> wanted = counts_on_cpu(c.grid, points);
    EXPECT_EQ(std::memcmp(counts.data(), wanted.data(), counts.size()), 0);
    EXPECT_TRUE(std::all_of(left.begin() + static_cast<int64_t>(layout.voxel_bytes()), left.end(), [](uint8_t byte) {
      return byte == 0;
    })) << "a list is not empty for the next call";
    const bool lists = c.num_points > 1000;
    const auto overfull = std::count_if(wanted.begin(), wanted.end(), [&](int32_t n) { return n > 255; });
    EXPECT_EQ(overfull > 0, lists) << "the cloud tests nothing";
  }
}

}  // namespace
}  // namespace amdahl::test
