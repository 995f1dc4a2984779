#include "sensor/measure/data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include "base/philox.h"
#include "base/small_floats.h"
#include "sensor/measure/input.h"

namespace amdahl {
namespace {

/// What a counter of the generator is for.
enum Tag : uint32_t { kPoint, kRange, kFeature, kTarget, kTimes, kStream = 64 };

Philox4 draw(const SensorJob& job, int64_t item, uint32_t block, uint32_t tag) {
  const auto index = static_cast<uint64_t>(item);
  return philox(job.seed, static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32), block, tag);
}

/// `count` normal numbers of an item into an array of the job's type.
void fill_normal(const SensorJob& job, int64_t item, uint32_t tag, int64_t count, std::byte* out) {
  const size_t size = size_of(job.type);
  for (int64_t at = 0; at < count; at += 4) {
    const Philox4 bits = draw(job, item, static_cast<uint32_t>(at / 4), tag);
    float values[4];
    for (int pair = 0; pair < 2; ++pair) {  // Box and Muller
      const float radius = std::sqrt(-2.0f * std::log(philox_uniform(bits.v[2 * pair])));
      const float angle = 2.0f * std::numbers::pi_v<float> * philox_uniform(bits.v[2 * pair + 1]);
      values[2 * pair] = radius * std::cos(angle), values[2 * pair + 1] = radius * std::sin(angle);
    }
    for (int64_t i = 0; i < std::min<int64_t>(4, count - at); ++i)
      store_element(out + static_cast<size_t>(at + i) * size, job.type, values[i]);
  }
}

/// `count` rising times in [0, 1], one somewhere in each of as many equal parts.
void fill_times(const SensorJob& job, int64_t item, uint32_t tag, int64_t count, float* out) {
  for (int64_t at = 0; at < count; at += 4) {
    const Philox4 bits = draw(job, item, static_cast<uint32_t>(at / 4), tag);
    for (int64_t i = 0; i < std::min<int64_t>(4, count - at); ++i)
      out[at + i] = (static_cast<float>(at + i) + 0.9f * philox_uniform(bits.v[i])) / static_cast<float>(count);
  }
}

/// A LiDAR of 32 beams in the middle of the grid, a sixth of its height above the ground: a beam ends on the ground or,
/// in its sector, at an obstacle, of which most are near. `in_order`: its beams one after the other in each of 2,048
/// directions, and round again; else any beam in any direction.
void lidar_point(const SensorJob& job, int64_t item, const float* extent, bool in_order, float* point) {
  constexpr int kBeams = 32, kDirections = 2048, kSectors = 256;
  constexpr float kLowest = -0.535f, kStep = 0.0233f;   // radians: -30.7 to +10.7 degrees
  constexpr float kNearest = 0.06f, kMeanRange = 0.2f;  // of obstacles, in widths of the grid
  constexpr float kRoughness = 0.1f;                    // of what is hit, relative to its range
  const Philox4 bits = draw(job, item, 0, kPoint);
  const auto beam = in_order ? static_cast<uint32_t>(item % kBeams) : bits.v[0] % kBeams;
  const auto direction = static_cast<float>(item / kBeams % kDirections);
  const float turn = in_order ? (direction + philox_uniform(bits.v[1])) / kDirections : philox_uniform(bits.v[1]);
  const float elevation = kLowest + kStep * static_cast<float>(beam);
  const auto sector = static_cast<uint32_t>(turn * (kSectors - 1));
  const Philox4 scene = philox(job.seed, sector, beam / 8, 0, kRange);
  const float width = std::min(extent[0], extent[1]), height = extent[2] / 6;
  float range = width * (kNearest - kMeanRange * std::log(philox_uniform(scene.v[0])));
  if (elevation < 0) range = std::min(range, height / std::sin(-elevation));
  range *= 1 + kRoughness * (philox_uniform(bits.v[2]) - 0.5f);
  const float angle = 2 * std::numbers::pi_v<float> * turn, flat = range * std::cos(elevation);
  const float centre[3] = {extent[0] / 2, extent[1] / 2, 2 * height};
  const float away[3] = {flat * std::cos(angle), flat * std::sin(angle), range * std::sin(elevation)};
  for (int axis = 0; axis < 3; ++axis)
    point[axis] = job.grid.minimum[static_cast<size_t>(axis)] + centre[axis] + away[axis];
}

/// Where points are drawn from, in extents of the grid.
struct PointSpan {
  float from, to;
};
PointSpan span_of(PointDistribution distribution) {
  if (distribution == PointDistribution::corner) return {0, 0.5f};
  // [-20, 20] for a grid of 128 voxels of 0.1 from -10 on: 0.32 of each axis is inside.
  if (distribution == PointDistribution::readme) return {-0.78125f, 2.34375f};
  return {0, 1};
}

void fill_point(const SensorJob& job, int64_t item, float* point) {
  float extent[3];
  for (size_t axis = 0; axis < 3; ++axis) extent[axis] = static_cast<float>(job.grid.size[axis]) * job.grid.voxel_size;
  const bool in_order = job.distribution == PointDistribution::scan;
  if (in_order || job.distribution == PointDistribution::clusters)
    return lidar_point(job, item, extent, in_order, point);
  const PointSpan span = span_of(job.distribution);
  const Philox4 bits = draw(job, item, 0, kPoint);
  for (size_t axis = 0; axis < 3; ++axis)
    point[axis] =
        job.grid.minimum[axis] + extent[axis] * (span.from + (span.to - span.from) * philox_uniform(bits.v[axis]));
}

void make_cloud(const SensorJob& job, ItemRange items, SensorItems& made) {
  const size_t row = static_cast<size_t>(job.num_features) * size_of(job.type);
  made.points.resize(static_cast<size_t>(items.count()) * 3);
  made.features.resize(static_cast<size_t>(items.count()) * row);
  for (int64_t i = 0; i < items.count(); ++i) {
    fill_point(job, items.begin + i, made.points.data() + i * 3);
    if (row > 0)
      fill_normal(job, items.begin + i, kFeature, job.num_features,
                  made.features.data() + static_cast<size_t>(i) * row);
  }
}

void make_streams(const SensorJob& job, ItemRange items, SensorItems& made) {
  made.targets.resize(static_cast<size_t>(items.count() * job.num_targets));
  for (int64_t b = 0; b < items.count(); ++b)
    fill_times(job, items.begin + b, kTarget, job.num_targets, made.targets.data() + b * job.num_targets);
  for (size_t s = 0; s < job.streams.size(); ++s) {
    const StreamShape& shape = job.streams[s];
    const auto index = static_cast<uint32_t>(s);
    const size_t row = static_cast<size_t>(shape.length * shape.width) * size_of(job.type);
    std::vector<std::byte>& data = made.stream_data.emplace_back(static_cast<size_t>(items.count()) * row);
    std::vector<float>& times = made.stream_times.emplace_back(static_cast<size_t>(items.count() * shape.length));
    for (int64_t b = 0; b < items.count(); ++b) {
      fill_normal(job, items.begin + b, kStream + 2 * index, shape.length * shape.width,
                  data.data() + static_cast<size_t>(b) * row);
      fill_times(job, items.begin + b, kStream + 2 * index + 1, shape.length, times.data() + b * shape.length);
    }
  }
}

}  // namespace

std::string_view to_string(SensorOperation operation) {
  switch (operation) {
    case SensorOperation::fuse:
      return "fuse";
    case SensorOperation::voxelize:
      return "voxelize";
    case SensorOperation::resample:
      return "resample";
  }
  return "?";
}

std::string_view to_string(PointDistribution distribution) {
  switch (distribution) {
    case PointDistribution::uniform:
      return "uniform";
    case PointDistribution::corner:
      return "corner";
    case PointDistribution::readme:
      return "readme";
    case PointDistribution::clusters:
      return "clusters";
    case PointDistribution::scan:
      return "scan";
  }
  return "?";
}

int64_t SensorJob::fused_width() const {
  int64_t width = 0;
  for (const StreamShape& stream : streams) width += stream.width;
  return width;
}

std::string workload_text(const SensorJob& job) {
  if (job.voxelizes()) {
    std::string text = fmt::format("p{} {}x{}x{}", job.num_items, job.grid.size[0], job.grid.size[1], job.grid.size[2]);
    if (job.num_features > 0) text += fmt::format(" f{}", job.num_features);
    if (job.distribution != PointDistribution::uniform) text += fmt::format(" {}", to_string(job.distribution));
    if (!job.input.empty()) text += " " + job.input;
    return text;
  }
  std::string text = fmt::format("b{} ", job.num_items);
  for (size_t i = 0; i < job.streams.size(); ++i)
    text += fmt::format("{}{}x{}", i > 0 ? "+" : "", job.streams[i].length, job.streams[i].width);
  text += fmt::format("->{}", job.num_targets);
  return job.input.empty() ? text : text + " " + job.input;
}

SensorItems make_items(const SensorJob& job, ItemRange items) {
  SensorItems made;
  if (job.cloud)
    read_points(job, items, made);
  else if (job.tracks)
    read_rows(job, items, made);
  else if (job.voxelizes())
    make_cloud(job, items, made);
  else
    make_streams(job, items, made);
  return made;
}

void store_element(std::byte* place, DType type, float value) {
  if (type == DType::f32) {
    std::memcpy(place, &value, sizeof(value));
    return;
  }
  const uint16_t bits = type == DType::bf16 ? to_bfloat(value).bits : to_half(value).bits;
  std::memcpy(place, &bits, sizeof(bits));
}

float element_at(const void* data, DType type, int64_t index) {
  const auto* bytes = static_cast<const std::byte*>(data) + static_cast<size_t>(index) * size_of(type);
  if (type == DType::f32) {
    float value;
    std::memcpy(&value, bytes, sizeof(value));
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, bytes, sizeof(bits));
  return type == DType::bf16 ? to_float(Bfloat{bits}) : to_float(Half{bits});
}

}  // namespace amdahl
