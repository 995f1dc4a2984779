#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "sensor_runs.h"

namespace amdahl::test {
namespace {

template <class T>
std::vector<double> widened(const std::vector<uint8_t>& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return {values.begin(), values.end()};
}

// The bits of the voxels as 0 and 1; unused bits of the last word must be 0.
std::vector<double> bits_of(const std::vector<uint8_t>& bytes, int64_t count) {
  std::vector<double> bits;
  for (const uint8_t byte : bytes)
    for (int bit = 0; bit < 8; ++bit) bits.push_back((byte >> bit) & 1);
  for (size_t i = static_cast<size_t>(count); i < bits.size(); ++i) EXPECT_EQ(bits[i], 0) << "behind the last voxel";
  bits.resize(static_cast<size_t>(count));
  return bits;
}

bool has_features(VoxelMode mode) { return mode == VoxelMode::mean || mode == VoxelMode::max; }

int64_t voxels_of(const VoxelGrid& grid) { return grid.size[0] * grid.size[1] * grid.size[2]; }

std::vector<uint8_t> feature_bytes(const Cloud& cloud, const VoxelRun& run) {
  return encode(features_of(cloud.num_points(), run.num_features, run.kind, run.type), run.type);
}

template <class T, class Join>
std::vector<uint8_t> joined(const std::vector<uint8_t>& a, const std::vector<uint8_t>& b, const Join& join) {
  std::vector<uint8_t> result(a.size());
  for (size_t i = 0; i < a.size(); i += sizeof(T)) {
    T x, y;
    std::memcpy(&x, a.data() + i, sizeof(T));
    std::memcpy(&y, b.data() + i, sizeof(T));
    const T sum = join(x, y);
    std::memcpy(result.data() + i, &sum, sizeof(T));
  }
  return result;
}

float larger_float(float a, float b) {
  if (a == b) return std::signbit(a) ? b : a;
  return a > b ? a : b;
}

std::vector<uint8_t> merged_outputs(const std::vector<uint8_t>& a, const std::vector<uint8_t>& b,
                                    const VoxelizeOptions& options) {
  if (options.mode == VoxelMode::max) return joined<float>(a, b, larger_float);
  if (options.deterministic) return joined<int64_t>(a, b, std::plus<int64_t>());
  return joined<float>(a, b, std::plus<float>());
}

}  // namespace

CloudPart::CloudPart(const SensorBench& bench, const Cloud& cloud, const std::vector<uint8_t>& features,
                     const VoxelRun& run, int64_t begin, int64_t end, bool partial)
    : stream_(bench.stream), ops_(bench.ops) {
  const auto skip = static_cast<size_t>(run.skip_elements), count = static_cast<size_t>(end - begin);
  points_ = memory_of(bench, cloud.points.data() + 3 * begin, count * 12, skip * 4);
  problem_.points = points_->as<float>();
  problem_.num_points = end - begin;
  problem_.grid = cloud.grid;
  problem_.options = run.options;
  problem_.partial = partial;
  if (has_features(run.options.mode)) {
    const size_t row = static_cast<size_t>(run.num_features) * size_of(run.type);
    features_ =
        memory_of(bench, features.data() + static_cast<size_t>(begin) * row, count * row, skip * size_of(run.type));
    problem_.features = features_->data();
    problem_.feature_type = run.type;
    problem_.num_features = run.num_features;
  }
  if (run.options.mode == VoxelMode::mean && (partial || run.wants_counts)) {
    counts_ = std::make_unique<GuardedMemory>(bench, static_cast<size_t>(voxels_of(cloud.grid)) * 4);
    problem_.counts = counts_->as<int32_t>();
  }
  scale_ = std::make_unique<GuardedMemory>(bench, 4);
  if (run.options.mode == VoxelMode::mean && run.options.deterministic) problem_.scale = scale_->as<float>();
  stats_ = std::make_unique<GuardedMemory>(bench, sizeof(VoxelizeCounts));
  problem_.stats = stats_->as<VoxelizeCounts>();
  const bool whole_numbers = partial && run.options.mode == VoxelMode::mean && run.options.deterministic;
  output_ = std::make_unique<GuardedMemory>(bench, voxelize_output_bytes(problem_), whole_numbers ? 0 : skip * 4);
  problem_.output = output_->data();
  scratch_ = std::make_unique<GuardedMemory>(bench, ops_.voxelize_scratch_bytes(problem_));
  problem_.scratch = scratch_->data();
}

namespace {

VoxelResult run_whole(const SensorBench& bench, const Cloud& cloud, const std::vector<uint8_t>& features,
                      const VoxelRun& run) {
  CloudPart part(bench, cloud, features, run, 0, cloud.num_points(), false);
  VoxelResult result;
  if (run.options.deterministic) {
    part.enqueue_scale(cloud.num_points());
    result.scale = part.scale();
  }
  part.enqueue();
  result.output = part.output();
  result.counts = part.counts();
  result.stats = part.stats();
  return result;
}

// Merges the outputs of parts on the host and finishes them on the device.
std::vector<uint8_t> finished(const SensorBench& bench, const Cloud& cloud, const VoxelRun& run, VoxelResult& merged) {
  VoxelizeProblem problem;
  problem.grid = cloud.grid;
  problem.options = run.options;
  problem.feature_type = run.type;
  problem.num_features = run.num_features;
  const auto counts = memory_of(bench, merged.counts.data(), merged.counts.size() * 4);
  const auto left = memory_of(bench, merged.output.data(), merged.output.size());
  const auto scale = memory_of(bench, &merged.scale, 4);
  GuardedMemory grid(bench, static_cast<size_t>(voxels_of(cloud.grid) * run.num_features) * 4);
  const bool in_place = !run.options.deterministic;
  problem.output = in_place ? left->data() : grid.data();
  if (run.options.mode == VoxelMode::mean) {
    problem.sums = left->data();
    problem.counts = counts->as<int32_t>();
    problem.scale = run.options.deterministic ? scale->as<float>() : nullptr;
  }
  bench.ops.finish(bench.stream, problem);
  return in_place ? left->get() : grid.get();
}

VoxelResult run_parts(const SensorBench& bench, const Cloud& cloud, const std::vector<uint8_t>& features,
                      const VoxelRun& run, const std::vector<int64_t>& borders) {
  VoxelResult merged;
  std::vector<std::unique_ptr<CloudPart>> parts;
  for (size_t i = 0; i + 1 < borders.size(); ++i) {
    parts.push_back(std::make_unique<CloudPart>(bench, cloud, features, run, borders[i], borders[i + 1], true));
    if (!run.options.deterministic) continue;
    parts.back()->enqueue_scale(cloud.num_points());
    merged.scale = i == 0 ? parts.back()->scale() : std::min(merged.scale, parts.back()->scale());
  }
  for (const auto& part : parts) {
    if (run.options.deterministic) part->set_scale(merged.scale);
    part->enqueue();
    const auto output = part->output();
    const auto counts = part->counts();
    const VoxelizeCounts stats = part->stats();
    merged.output = merged.output.empty() ? output : merged_outputs(merged.output, output, run.options);
    if (merged.counts.empty()) merged.counts.resize(counts.size());
    std::transform(counts.begin(), counts.end(), merged.counts.begin(), merged.counts.begin(), std::plus<int32_t>());
    merged.stats.num_nan += stats.num_nan;
    merged.stats.num_outside += stats.num_outside;
  }
  merged.output = finished(bench, cloud, run, merged);
  return merged;
}

std::vector<int64_t> uneven_borders(int64_t count, int parts) {
  std::vector<int64_t> borders{0};
  for (int i = 1; i < parts; ++i) borders.push_back(count * i * i / (parts * parts));  // the first part may be empty
  borders.push_back(count);
  return borders;
}

// The scale is a power of two with which N values as large as the largest sum to less than 2^62, and at most two bits
// below the maximum. If all values are zero, it is the largest float, so that the minimum over the parts' scales is
// that of the parts with values.
void expect_scale(float scale, const std::vector<double>& features, int64_t num_points) {
  double largest = 0;
  for (const double feature : features)
    if (std::isfinite(feature)) largest = std::max(largest, std::fabs(feature));
  int exponent = 0;
  ASSERT_TRUE(std::isnormal(scale) && std::frexp(scale, &exponent) == 0.5f) << scale << " is no power of two";
  const double reach = largest * static_cast<double>(num_points) * static_cast<double>(scale);
  EXPECT_LT(reach, 0x1p62);
  if (scale < 0x1p127f) {
    EXPECT_GE(reach, 0x1p59) << "scale " << scale << " wastes bits";
  }
}

}  // namespace

CloudPart whole_cloud(const SensorBench& bench, const Cloud& cloud, const VoxelRun& run) {
  return {bench, cloud, feature_bytes(cloud, run), run, 0, cloud.num_points(), false};
}

VoxelResult run_voxelize(const SensorBench& bench, const Cloud& cloud, const VoxelRun& run) {
  const std::vector<uint8_t> features = feature_bytes(cloud, run);
  if (run.parts == 1) return run_whole(bench, cloud, features, run);
  return run_parts(bench, cloud, features, run, uneven_borders(cloud.num_points(), run.parts));
}

void expect_voxels(const Cloud& cloud, const VoxelRun& run, const VoxelResult& result) {
  const PointPlaces places = reference_places(cloud.points, cloud.grid, run.options);
  const int64_t num_voxels = voxels_of(cloud.grid);
  EXPECT_EQ(result.stats.num_nan, places.num_nan);
  EXPECT_EQ(result.stats.num_outside, places.num_outside);
  const std::vector<uint8_t> raw = feature_bytes(cloud, run);
  std::vector<double> features(raw.size() / size_of(run.type));
  for (size_t i = 0; i < features.size(); ++i) features[i] = decode(raw.data(), run.type, static_cast<int64_t>(i));
  if (run.options.deterministic) expect_scale(result.scale, features, cloud.num_points());
  const auto want =
      reference_voxels(places, features, run.num_features, num_voxels, run.options, static_cast<double>(result.scale));
  const std::vector<double> got = run.options.mode == VoxelMode::bitmask ? bits_of(result.output, num_voxels)
                                  : has_features(run.options.mode)       ? widened<float>(result.output)
                                                                         : widened<int32_t>(result.output);
  expect_elements(got, want, largest_finite(DType::f32));
  if (run.options.mode != VoxelMode::mean || (run.parts == 1 && !run.wants_counts)) return;
  VoxelizeOptions counting = run.options;
  counting.mode = VoxelMode::count;
  expect_elements({result.counts.begin(), result.counts.end()},
                  reference_voxels(places, {}, 0, num_voxels, counting, 0), 0);
}

void for_each_voxelize(VoxelMode mode, bool exact_quotient,
                       const std::function<void(const Cloud&, const VoxelRun&)>& visit) {
  for (size_t i = 0; i < clouds().size(); ++i)
    for (const VoxelRun& run : voxel_runs(mode, i)) {
      const Cloud& cloud = clouds()[i];
      if (exact_quotient && run.options.fast_quotient && !cloud.clear_of_sides) continue;
      SCOPED_TRACE(cloud.name + ", " + run.name());
      visit(cloud, run);
    }
}

namespace {

// Permutes the points of the cloud and their features.
void shuffle(Cloud& cloud, std::vector<uint8_t>& features, uint64_t seed) {
  std::vector<size_t> order(static_cast<size_t>(cloud.num_points()));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937_64(seed));
  const Cloud before = cloud;
  const std::vector<uint8_t> features_before = features;
  const size_t row = features.size() / order.size();
  for (size_t i = 0; i < order.size(); ++i) {
    std::copy_n(before.points.begin() + static_cast<std::ptrdiff_t>(3 * order[i]), 3,
                cloud.points.begin() + static_cast<std::ptrdiff_t>(3 * i));
    std::copy_n(features_before.begin() + static_cast<std::ptrdiff_t>(row * order[i]), row,
                features.begin() + static_cast<std::ptrdiff_t>(row * i));
  }
}

}  // namespace

void expect_order_does_not_matter(const SensorBench& bench) {
  for (const Cloud& cloud : clouds())
    for (const VoxelMode mode : kVoxelModes)
      for (const DType type : kFloatTypes) {
        const bool with_features = has_features(mode);
        if (cloud.num_points() < 2 || (!with_features && type != DType::f32)) continue;
        const VoxelRun run{{mode, VoxelLayout::xyz, OutOfBounds::clamp, mode == VoxelMode::mean},
                           type,
                           with_features ? 5 : 0,
                           FeatureKind::uneven};
        SCOPED_TRACE(cloud.name + ", " + run.name());
        const std::vector<uint8_t> features = feature_bytes(cloud, run);
        const VoxelResult whole = run_whole(bench, cloud, features, run);
        for (uint64_t seed = 1; seed <= 3; ++seed) {
          Cloud shuffled = cloud;
          std::vector<uint8_t> shuffled_features = features;
          shuffle(shuffled, shuffled_features, seed);
          EXPECT_EQ(run_whole(bench, shuffled, shuffled_features, run).output, whole.output) << "shuffled";
          if (!with_features) continue;
          const auto borders = uneven_borders(cloud.num_points(), static_cast<int>(2 * seed));
          EXPECT_EQ(run_parts(bench, shuffled, shuffled_features, run, borders).output, whole.output) << "in parts";
        }
      }
}

}  // namespace amdahl::test
