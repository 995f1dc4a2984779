#include "sensor_cases.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>

namespace amdahl::test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kLeast = std::numeric_limits<float>::denorm_min(), kMost = std::numeric_limits<float>::max();

std::vector<double> normals(size_t count, uint64_t seed, double scale = 1) {
  std::mt19937_64 generator(seed);
  std::normal_distribution<double> normal(0, scale);
  std::vector<double> values(count);
  for (double& value : values) value = normal(generator);
  return values;
}

std::vector<float> uniforms(size_t count, uint64_t seed, float low, float high) {
  std::mt19937_64 generator(seed);
  std::uniform_real_distribution<float> uniform(low, high);
  std::vector<float> values(count);
  for (float& value : values) value = uniform(generator);
  return values;
}

// ---- fuse ----

using Times = std::function<float(int64_t batch, int64_t index)>;

StreamInput stream_of(int64_t batch, int64_t length, int64_t width, uint64_t seed, const Times& time) {
  StreamInput stream{length, width, normals(static_cast<size_t>(batch * length * width), seed), {}};
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t s = 0; s < length; ++s) stream.times.push_back(time(b, s));
  return stream;
}

// Increasing times at uneven distances in [0, 1), different for every row.
Times uneven(uint64_t seed, int64_t length) {
  return [seed, length](int64_t b, int64_t s) {
    auto times = uniforms(static_cast<size_t>(length), seed + static_cast<uint64_t>(b) * 1000, 0, 1);
    std::sort(times.begin(), times.end());
    return times[static_cast<size_t>(s)];
  };
}

// Every time of every stream, the adjacent floats, the midpoints, and values beyond both ends; T is equal in all rows.
std::vector<float> probing_targets(const FuseInput& input, int64_t b) {
  std::vector<float> targets;
  for (const StreamInput& stream : input.streams) {
    const float* times = stream.times.data() + b * stream.length;
    const float span = times[stream.length - 1] - times[0], beyond = std::isfinite(span) ? span : 0;
    targets.insert(targets.end(), {times[0] - beyond / 3, times[stream.length - 1] + beyond / 3});
    for (int64_t s = 0; s < stream.length; ++s) {
      targets.insert(targets.end(),
                     {times[s], std::nextafter(times[s], -kInfinity), std::nextafter(times[s], kInfinity)});
      if (s > 0) targets.push_back(times[s - 1] / 2 + times[s] / 2);
    }
  }
  for (float& target : targets) target = std::clamp(target, -kMost, kMost);
  return targets;
}

FuseCase probed(std::string name, int64_t batch, std::vector<StreamInput> streams, bool hold_only = false) {
  FuseCase result{std::move(name), {batch, 0, std::move(streams), {}}, hold_only};
  for (int64_t b = 0; b < batch; ++b) {
    const auto row = probing_targets(result.input, b);
    result.input.num_targets = static_cast<int64_t>(row.size());
    result.input.targets.insert(result.input.targets.end(), row.begin(), row.end());
  }
  return result;
}

FuseCase scattered(std::string name, int64_t batch, int64_t num_targets, std::vector<StreamInput> streams) {
  return {std::move(name),
          {batch, num_targets, std::move(streams),
           uniforms(static_cast<size_t>(batch * num_targets), 77, -0.3f, 1.3f)}};  // unordered
}

FuseCase of_times(const std::string& name, const std::vector<float>& times, bool hold_only = false) {
  const auto length = static_cast<int64_t>(times.size());
  return probed(name, 1,
                {stream_of(1, length, 3, 21, [&](int64_t, int64_t s) { return times[static_cast<size_t>(s)]; })},
                hold_only);
}

FuseCase of_values(const std::string& name, std::vector<double> values) {
  const auto length = static_cast<int64_t>(values.size());
  StreamInput stream = stream_of(1, length, 1, 1, [](int64_t, int64_t s) { return static_cast<float>(s); });
  stream.data = std::move(values);
  return probed(name, 1, {std::move(stream)}, true);
}

std::vector<FuseCase> shapes() {
  std::vector<FuseCase> cases;
  cases.push_back(scattered("one of everything", 1, 1, {stream_of(1, 1, 1, 1, uneven(1, 1))}));
  cases.push_back(
      scattered("one sample", 3, 7, {stream_of(3, 1, 1, 2, uneven(2, 1)), stream_of(3, 1, 5, 3, uneven(3, 1))}));
  cases.push_back(scattered("one target", 3, 1, {stream_of(3, 9, 33, 4, uneven(4, 9))}));
  cases.push_back(scattered("three streams", 4, 50,
                            {stream_of(4, 30, 512, 5, uneven(5, 30)), stream_of(4, 100, 64, 6, uneven(6, 100)),
                             stream_of(4, 200, 12, 7, uneven(7, 200))}));
  cases.push_back(scattered("odd widths", 3, 37,
                            {stream_of(3, 30, 13, 8, uneven(8, 30)), stream_of(3, 101, 7, 9, uneven(9, 101)),
                             stream_of(3, 64, 3, 10, uneven(10, 64))}));
  cases.push_back(scattered("five streams", 2, 19,
                            {stream_of(2, 2, 1, 11, uneven(11, 2)), stream_of(2, 3, 2, 12, uneven(12, 3)),
                             stream_of(2, 5, 257, 13, uneven(13, 5)), stream_of(2, 1, 4, 14, uneven(14, 1)),
                             stream_of(2, 17, 31, 15, uneven(15, 17))}));
  cases.push_back(
      scattered("two streams", 1, 11, {stream_of(1, 6, 8, 16, uneven(16, 6)), stream_of(1, 6, 24, 17, uneven(17, 6))}));
  cases.push_back(scattered("long row", 1, 5, {stream_of(1, 3, 4099, 18, uneven(18, 3))}));
  const auto steps = [](int64_t, int64_t s) { return static_cast<float>(s) / 4000; };
  cases.push_back(scattered("long stream", 2, 70, {stream_of(2, 4000, 2, 19, steps)}));
  // More targets than the y or z dimension of a CUDA grid can count.
  cases.push_back(scattered("many targets", 1, 70'000, {stream_of(1, 3, 1, 20, uneven(20, 3))}));
  cases.push_back(scattered("many rows", 70'000, 1, {stream_of(70'000, 2, 1, 21, steps)}));
  cases.push_back(scattered("many short entries", 600, 70,
                            {stream_of(600, 6, 8, 24, uneven(24, 6)), stream_of(600, 4, 4, 25, uneven(25, 4))}));
  // Tests columns of several targets in parallel, and targets in chunks.
  cases.push_back(scattered("some wide entries", 40, 90,
                            {stream_of(40, 20, 280, 26, uneven(26, 20)), stream_of(40, 15, 20, 27, uneven(27, 15))}));
  cases.push_back(
      probed("on the times", 3, {stream_of(3, 12, 5, 22, uneven(22, 12)), stream_of(3, 4, 2, 23, uneven(23, 4))}));
  return cases;
}

std::vector<FuseCase> build_fuse_cases() {
  std::vector<FuseCase> cases = shapes();
  cases.push_back(of_times("equal times in the middle", {0, 1, 1, 1, 2, 2, 3}));
  cases.push_back(of_times("equal times first", {1, 1, 1, 2}));
  cases.push_back(of_times("equal times last", {0, 1, 2, 2}));
  cases.push_back(of_times("all times equal", {5, 5, 5}));
  cases.push_back(of_times("zeros of both signs", {-0.0f, 0.0f, -0.0f, 1}));
  cases.push_back(of_times("negative times", {-3, -2.5f, -1, 0.25f}));
  cases.push_back(of_times("large times", {1e9f, 1e9f + 64, 1e9f + 128, 1e9f + 320, 1e9f + 1024}));
  cases.push_back(of_times("neighbouring floats", {1, std::nextafter(1.0f, 2.0f), 1 + 0x1p-22f, 1 + 0x1p-20f}));
  cases.push_back(of_times("steps like the originals' 1e-8", {0, 1e-8f, 2e-8f, 4e-8f, 1e-7f}));
  cases.push_back(of_times("steps of 1e-30", {0, 1e-30f, 2e-30f, 7e-30f}));
  cases.push_back(of_times("denormal times", {0, kLeast, 2 * kLeast, 9 * kLeast, 1000 * kLeast, 1e-39f}));
  cases.push_back(of_times("from tiny to huge", {-1e30f, -1, -1e-30f, 0, 1e-30f, 1, 1e30f}));
  cases.push_back(of_times("intervals beyond float", {-kMost, -1e38f, 3e38f, kMost}, true));
  cases.push_back(of_values("denormal data", {1e-45, -1e-45, 1e-40, -3e-39, 1.2e-38, 6e-8, -6e-8, 3e-6}));
  cases.push_back(of_values("differences beyond float", {3e38, -3e38, 3.4e38, 65504, -65504, 65519, 1e5, 0}));
  cases.push_back(of_values("zeros of both signs as data", {-0.0, 0.0, -0.0, -0.0, 1, -0.0, -1, -0.0}));
  cases.push_back(of_values("data that is not finite", {1, kInfinity, 2, -kInfinity, -kInfinity, kNan, 3, 4, kNan}));
  cases.push_back(
      of_values("ties of the short types", {1, 1 + 0x1p-8, 1 + 0x1p-7, 1 + 0x1p-11, 1 + 3 * 0x1p-11, 257, 2049, 2051}));
  return cases;
}

// ---- clouds ----

std::vector<float> points_in(size_t count, uint64_t seed, const VoxelGrid& grid, float margin) {
  std::vector<float> points(count * 3);
  const auto unit = uniforms(count * 3, seed, -margin, 1 + margin);
  for (size_t i = 0; i < points.size(); ++i)
    points[i] = grid.minimum[i % 3] + unit[i] * grid.voxel_size * static_cast<float>(grid.size[i % 3]);
  return points;
}

// All combinations of three coordinates out of `values`, which are absolute positions on each axis.
std::vector<float> lattice(const std::vector<float>& values) {
  std::vector<float> points;
  for (const float x : values)
    for (const float y : values)
      for (const float z : values) points.insert(points.end(), {x, y, z});
  return points;
}

// Voxel borders computed as a user would, and the adjacent floats.
std::vector<float> on_borders(const VoxelGrid& grid, bool outer_only) {
  std::vector<float> points;
  for (size_t axis = 0; axis < 3; ++axis)
    for (int64_t i = 0; i <= grid.size[axis]; ++i) {
      if (outer_only && i != 0 && i != grid.size[axis]) continue;
      const float side = grid.minimum[axis] + static_cast<float>(i) * grid.voxel_size;
      for (const float at : {side, std::nextafter(side, -kInfinity), std::nextafter(side, kInfinity)}) {
        std::vector<float> point(3);
        for (size_t other = 0; other < 3; ++other)
          point[other] = grid.minimum[other] + (static_cast<float>(grid.size[other]) / 2 + 0.25f) * grid.voxel_size;
        point[axis] = at;
        points.insert(points.end(), point.begin(), point.end());
      }
    }
  return points;
}

std::vector<float> clear_of_sides(size_t count, uint64_t seed, const VoxelGrid& grid) {
  std::mt19937_64 generator(seed);
  std::uniform_real_distribution<float> within(0.1f, 0.9f);
  std::vector<float> points(count * 3);
  for (size_t i = 0; i < points.size(); ++i) {
    std::uniform_int_distribution<int64_t> cell(-2, grid.size[i % 3] + 1);
    points[i] = grid.minimum[i % 3] + (static_cast<float>(cell(generator)) + within(generator)) * grid.voxel_size;
  }
  for (size_t i = 0; i < points.size(); i += 41) points[i] = kNan;
  return points;
}

std::vector<float> clustered(size_t count, const VoxelGrid& grid) {
  std::vector<float> points = points_in(count, 31, grid, 0);
  for (size_t i = 0; i < points.size(); ++i)
    if (i / 3 % 8 != 0) points[i] = grid.minimum[i % 3] + 2.5f * grid.voxel_size + points[i] * 1e-3f;
  return points;
}

std::vector<Cloud> build_clouds() {
  const VoxelGrid slab{{-1, -2, 0.5f}, 0.25f, {5, 7, 3}}, room{{-10, -10, -10}, 0.1f, {17, 10, 13}};
  const VoxelGrid one{{0, 0, 0}, 1, {1, 1, 1}}, needle{{0, 0, 0}, 0.3f, {1, 97, 1}},
      far{{1e6f, -1e6f, 3e5f}, 0.1f, {9, 9, 9}};
  const VoxelGrid dust{{0, 0, 0}, 1e-30f, {4, 4, 4}}, sky{{-1e30f, -1e30f, -1e30f}, 1e30f, {2, 3, 2}};
  const VoxelGrid least{{0, 0, 0}, 4 * kLeast, {4, 4, 4}};
  const VoxelGrid corner{{0, 0, 0}, 0.25f, {5, 7, 3}};
  const std::vector<float> same(400 * 3, 0.6f);
  return {
      {"no points", slab, {}, true},
      {"one point", slab, {-0.9f, -1.9f, 0.6f}, true},
      {"one point outside", slab, {9, 9, 9}, true},
      {"one point that is nowhere", slab, {0, kNan, 0}, true},
      {"all in one voxel", corner, same, true},
      {"random inside", slab, points_in(600, 32, slab, 0)},
      {"random around", room, points_in(1300, 33, room, 0.3f)},
      {"clustered", room, clustered(1100, room)},
      {"on sides of voxels, exact", slab, on_borders(slab, false)},
      {"on sides of voxels, rounded", room, on_borders(room, false)},
      {"on the grid's sides", far, on_borders(far, true)},
      {"far from zero", far, points_in(400, 34, far, 0.2f)},
      {"one voxel", one, lattice({-0.5f, -0.0f, 0, kLeast, 0.5f, std::nextafter(1.0f, 0.0f), 1, 2})},
      {"one row", needle, points_in(300, 35, needle, 0.1f)},
      {"not finite", corner, lattice({kNan, -kNan, kInfinity, -kInfinity, 0.55f})},
      {"huge", corner, lattice({1e30f, -1e30f, kMost, -kMost, 2147483648.0f, -2147483648.0f, 536870912.0f, 0.55f})},
      {"voxels of 1e-30", dust, lattice({-1e-30f, 0, 1e-30f, 3.5e-30f, 1, -1, 1e30f, kMost})},
      {"voxels of 1e30", sky, lattice({-1e30f, 0, 5e29f, 1e30f, kMost, -kMost, kNan})},
      {"denormal voxels", least, lattice({-kLeast, 0, 3 * kLeast, 4 * kLeast, 15 * kLeast, 16 * kLeast, 1})},
      {"clear of sides", room, clear_of_sides(900, 36, room), true},
  };
}

template <class T>
const T& turn(const std::vector<T>& values, size_t at) {
  return values[at % values.size()];
}

}  // namespace

const std::vector<FuseCase>& fuse_cases() {
  static const std::vector<FuseCase> cases = build_fuse_cases();
  return cases;
}

const std::vector<TimesCase>& times_cases() {
  static const std::vector<TimesCase> cases = {
      {"rising", 4, {0, 1, 2, 3, -5, -4, 0, 9}},
      {"equal", 3, {1, 1, 1, -0.0f, 0.0f, -0.0f}},
      {"one a row, falling over rows", 1, {3, 2, 1}},
      {"falls at once", 3, {1, 0, 2}},
      {"falls at the end", 3, {0, 1, 2, 0, 1, 0.5f}},
      {"falls by one float", 2, {1, 2, std::nextafter(1.0f, 2.0f), 1}},
      {"NaN first", 2, {kNan, 1}},
      {"NaN in a later row", 2, {0, 1, 2, kNan}},
      {"infinite", 3, {0, 1, kInfinity}},
      {"minus infinite first", 2, {-kInfinity, 0}},
      {"a fall before a NaN", 4, {0, 2, 1, kNan}},
      {"a NaN before a fall", 4, {0, kNan, 2, 1}},
  };
  return cases;
}

const std::vector<Cloud>& clouds() {
  static const std::vector<Cloud> table = build_clouds();
  return table;
}

std::vector<Cloud> large_clouds() {
  const VoxelGrid cube{{-4, -4, -4}, 0.0625f, {128, 128, 128}}, hall{{-3, 2, 0}, 0.11f, {97, 61, 43}};
  Cloud crowd{"crowd", hall, points_in(60'000, 43, hall, 0.1f)};
  for (size_t i = 0; i < crowd.points.size(); ++i)  // a third in one voxel, a third in some
    if (i / 3 % 3 != 0)
      crowd.points[i] = hall.minimum[i % 3] + (2.5f + (i / 3 % 3 == 1 ? 0 : 0.02f) * crowd.points[i]) * hall.voxel_size;
  Cloud scan{"scan", hall, points_in(60'000, 47, hall, 0.0f)};
  for (size_t i = 0; i < scan.points.size(); i += 3) {  // to and fro along rows of voxels, 40 points in each
    const size_t length = static_cast<size_t>(hall.size[0]), passed = i / 3 / 40, row = passed / length,
                 from_end = passed % length;
    const std::array<size_t, 3> voxel{row % 2 == 0 ? from_end : length - 1 - from_end, row, 7 + i % 2};
    for (size_t axis = 0; axis < 3; ++axis) {
      const float extent = static_cast<float>(hall.size[axis]) * hall.voxel_size;
      // relative position in the hall, and in the voxel
      const float within = (scan.points[i + axis] - hall.minimum[axis]) / extent;
      scan.points[i + axis] =
          hall.minimum[axis] + (static_cast<float>(voxel[axis]) + 0.1f + 0.8f * within) * hall.voxel_size;
    }
  }
  return {{"large", cube, points_in(300'001, 41, cube, 0.05f)},
          {"medium", cube, points_in(150'001, 41, cube, 0.05f)},
          crowd,
          scan};
}

std::string to_string(FeatureKind kind) {
  static const char* const kNames[] = {"normal", "negative", "uneven", "signed zero", "tiny", "not finite"};
  return kNames[static_cast<size_t>(kind)];
}

std::vector<double> features_of(int64_t num_points, int64_t num_features, FeatureKind kind, DType type) {
  const auto count = static_cast<size_t>(num_points * num_features);
  std::vector<double> values = normals(count, 51);
  const double reach = type == DType::f16 ? 4 : 25;  // range of decimal exponents in both directions
  for (size_t i = 0; i < count; ++i) {
    if (kind == FeatureKind::negative) values[i] = -0.001 - std::fabs(values[i]);
    if (kind == FeatureKind::uneven)
      values[i] = (values[i] < 0 ? -1 : 1) * std::pow(10, reach * std::sin(static_cast<double>(i) * 1.7));
    if (kind == FeatureKind::signed_zero) values[i] = i % 3 == 0 ? 0.0 : -0.0;
    if (kind == FeatureKind::tiny) values[i] *= type == DType::f16 ? 1e-7 : 1e-40;
    if (kind == FeatureKind::not_finite && i % 5 != 0)
      values[i] = i % 5 == 1   ? static_cast<double>(kNan)
                  : i % 5 == 2 ? -static_cast<double>(kInfinity)
                               : static_cast<double>(-kNan);
    if (kind == FeatureKind::not_finite && i % 301 == 7) values[i] = static_cast<double>(kInfinity);
  }
  return values;
}

std::string VoxelRun::name() const {
  std::string text{amdahl::to_string(options.mode)};
  text += ' ' + std::string(amdahl::to_string(options.layout));
  text += options.bounds == OutOfBounds::clamp ? " clamp" : " drop";
  if (options.deterministic) text += " deterministic";
  if (options.zero_floor) text += " zero floor";
  if (options.fast_quotient) text += " fast quotient";
  text += ' ' + std::string(amdahl::to_string(type)) + " F=" + std::to_string(num_features) + ' ' + to_string(kind);
  return text + " parts=" + std::to_string(parts) + " skip=" + std::to_string(skip_elements);
}

std::vector<VoxelRun> voxel_runs(VoxelMode mode, size_t cloud) {
  const bool has_features = mode == VoxelMode::mean || mode == VoxelMode::max;
  std::vector<VoxelRun> runs;
  size_t number = cloud;
  for (const VoxelLayout layout : {VoxelLayout::xyz, VoxelLayout::zyx})
    for (const OutOfBounds bounds : {OutOfBounds::drop, OutOfBounds::clamp})
      for (const bool fast_quotient : {false, true})
        for (const DType type : kFloatTypes)
          for (const bool variant : {false, true})  // `deterministic` for mean, `zero_floor` for max
            for (const int parts : {1, 3}) {
              if (!has_features && (type != DType::f32 || variant || parts != 1)) continue;
              VoxelRun run{{mode, layout, bounds, false, false, fast_quotient},
                           type,
                           0,
                           FeatureKind::normal,
                           parts,
                           number % 2 == 0,
                           static_cast<int64_t>(number % 4)};
              ++number;
              (mode == VoxelMode::mean ? run.options.deterministic : run.options.zero_floor) = variant;
              if (has_features) {
                run.num_features = turn<int64_t>({3, 1, 8, 33, 16}, number);
                run.kind = static_cast<FeatureKind>(number % 7 % (run.options.deterministic ? 5 : 6));
              }
              runs.push_back(run);
            }
  return runs;
}

}  // namespace amdahl::test
