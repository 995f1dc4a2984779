// Every sensor operation of a GPU over the CPU's table of cases: against float64, and, where the contract defines the
// bits, against the CPU's.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "sensor/ops/cuda_kernels.h"
#include "sensor_gpu.h"

namespace amdahl::test {
namespace {

// Bits, but for those of NaN.
bool same_numbers(const std::vector<uint8_t>& a, const std::vector<uint8_t>& b, DType type) {
  for (int64_t i = 0; i < static_cast<int64_t>(a.size() / size_of(type)); ++i) {
    const double x = decode(a.data(), type, i), y = decode(b.data(), type, i);
    if (std::isnan(x) ? !std::isnan(y) : x != y || std::signbit(x) != std::signbit(y)) return false;
  }
  return a.size() == b.size();
}

TEST_F(SensorGpuTest, Fuse) {
  for_each_fuse([&](const FuseCase& fuse_case, DType type, Extrapolation rule, size_t skip) {
    FuseRun run(gpu(), fuse_case, type, rule, skip);
    run.enqueue();
    const std::vector<uint8_t> output = run.output();
    expect_fused(fuse_case, type, rule, output);
    if (rule != Extrapolation::hold) return;
    FuseRun wanted(cpu(), fuse_case, type, rule, skip);
    wanted.enqueue();
    EXPECT_TRUE(same_numbers(output, wanted.output(), type)) << "not the CPU's bits";
  });
}

/// Entries that a block copies whole: every type and rule, aligned for it.
TEST_F(SensorGpuTest, FuseManyShortEntries) {
  const auto& cases = fuse_cases();
  const auto short_entries = std::find_if(
      cases.begin(), cases.end(), [](const FuseCase& fuse_case) { return fuse_case.name == "many short entries"; });
  ASSERT_NE(short_entries, cases.end());
  for (const DType type : kFloatTypes)
    for (const Extrapolation rule : kRules) {
      SCOPED_TRACE(std::string(amdahl::to_string(type)) + ", " + std::string(amdahl::to_string(rule)));
      FuseRun run(gpu(), *short_entries, type, rule);
      run.enqueue();
      expect_fused(*short_entries, type, rule, run.output());
    }
}

TEST_F(SensorGpuTest, CheckTimes) {
  std::vector<TimesCase> cases;  // more than one launch takes
  for (int i = 0; i < 3; ++i) cases.insert(cases.end(), times_cases().begin(), times_cases().end());
  expect_times_checked(gpu(), cases);
  expect_times_checked(gpu(), {});
}

/// The first fault of a long array, whichever block of threads comes to it first.
TEST_F(SensorGpuTest, CheckTimesFindsTheFirstOfMany) {
  for (const int64_t length : {int64_t{1'000'000}, int64_t{1000}}) {
    TimesCase times_case{"long", length, std::vector<float>(1'000'000)};
    for (size_t i = 0; i < times_case.times.size(); ++i)
      times_case.times[i] = static_cast<float>(static_cast<int64_t>(i) % length);
    expect_times_checked(gpu(), {times_case});
    for (const size_t at : {size_t{999'999}, size_t{700'001}, size_t{700'003}, size_t{300'007}, size_t{1}}) {
      times_case.times[at] = at % 2 == 0 ? std::numeric_limits<float>::infinity() : -1;
      expect_times_checked(gpu(), {times_case});
    }
  }
}

TEST_F(SensorGpuTest, VoxelizeCount) { voxelize_all(VoxelMode::count); }
TEST_F(SensorGpuTest, VoxelizeOccupancy) { voxelize_all(VoxelMode::occupancy); }
TEST_F(SensorGpuTest, VoxelizeBitmask) { voxelize_all(VoxelMode::bitmask); }
TEST_F(SensorGpuTest, VoxelizeMean) { voxelize_all(VoxelMode::mean); }
TEST_F(SensorGpuTest, VoxelizeMax) { voxelize_all(VoxelMode::max); }
TEST_F(SensorGpuTest, OrderDoesNotMatter) { expect_order_does_not_matter(gpu()); }
TEST_F(SensorGpuTest, Masks) { expect_masks_work(gpu()); }

TEST_F(SensorGpuTest, LargeClouds) {
  for (const Cloud& cloud : large_clouds())
    for (const VoxelMode mode : kVoxelModes)
      for (const DType type : {DType::f32, DType::bf16})
        for (const bool deterministic : {false, true}) {
          const bool has_features = has_values(mode);
          if ((!has_features && type != DType::f32) || (mode != VoxelMode::mean && deterministic)) continue;
          VoxelRun run{{mode, VoxelLayout::zyx, OutOfBounds::drop, deterministic}, type};
          run.num_features = !has_features ? 0 : type == DType::f32 ? 4 : 3;
          run.kind = FeatureKind::uneven;
          SCOPED_TRACE(cloud.name + ", " + run.name());
          const VoxelResult result = run_voxelize(gpu(), cloud, run);
          expect_voxels(cloud, run, result);
          if (mode != VoxelMode::mean || deterministic) {
            EXPECT_TRUE(result.output == run_voxelize(cpu(), cloud, run).output) << "not the CPU's bits";
          }
        }
}

/// Awkward points, and those of a scan in its order, as often as it takes for them to be sorted: fewer are counted one
/// by one.
TEST_F(SensorGpuTest, CloudsManyTimes) {
  constexpr size_t kLeastPoints = 300'000;
  std::vector<Cloud> all = clouds();
  for (Cloud& cloud : large_clouds()) all.push_back(std::move(cloud));
  for (const Cloud& once : all) {
    if (once.points.empty()) continue;
    Cloud cloud = once;
    while (cloud.points.size() < 3 * kLeastPoints)
      cloud.points.insert(cloud.points.end(), once.points.begin(), once.points.end());
    for (const VoxelMode mode : {VoxelMode::count, VoxelMode::occupancy, VoxelMode::bitmask})
      for (const OutOfBounds bounds : {OutOfBounds::drop, OutOfBounds::clamp})
        for (const VoxelLayout layout : {VoxelLayout::xyz, VoxelLayout::zyx}) {
          VoxelRun run{{mode, layout, bounds}};
          run.skip_elements = layout == VoxelLayout::xyz ? 0 : 1;
          SCOPED_TRACE(cloud.name + ", " + run.name());
          const VoxelResult result = run_voxelize(gpu(), cloud, run), wanted = run_voxelize(cpu(), cloud, run);
          EXPECT_TRUE(result.output == wanted.output) << "not the CPU's bits";
          EXPECT_EQ(result.stats.num_nan, wanted.stats.num_nan);
          EXPECT_EQ(result.stats.num_outside, wanted.stats.num_outside);
        }
  }
}

/// Bins of few points beside overfull ones: voxels that a lane, a warp or a block adds up, overfull bins, and rows of
/// every length, also of more than half of a warp's lanes (19).
TEST_F(SensorGpuTest, CloudsOfUnevenDensity) {
  Cloud many{"uneven", {{0, 0, 0}, 1, {64, 61, 67}}, {}};
  std::mt19937_64 generator(7);
  std::uniform_real_distribution<float> unit(0, 1);
  const auto add_point = [&](int i) {
    for (size_t axis = 0; axis < 3; ++axis) {
      const float at = unit(generator);
      // Overfull voxels, of which 1,024 points have 204, 43, 35, 33 and 10.
      const float overfull = i % 5 == 0    ? 11
                             : i % 23 == 3 ? 23
                             : i % 29 == 1 ? 40
                             : i % 31 == 4 ? 52
                             : i % 97 == 2 ? 7
                                           : -1;
      many.points.push_back(overfull >= 0 ? overfull + at : 70 * at - 2);
    }
  };
  for (int i = 0; i < 40'000; ++i) add_point(i);
  const Cloud few = many;
  for (int i = 40'000; i < 150'000; ++i) add_point(i);
  for (const VoxelMode mode : {VoxelMode::count, VoxelMode::occupancy, VoxelMode::mean, VoxelMode::max})
    for (const int64_t num_features : {1, 3, 8, 19, 64, 130, 512})
      for (const int parts : {1, 3}) {
        const bool has_features = has_values(mode);
        if (!has_features && (num_features > 1 || parts > 1)) continue;
        const Cloud& cloud = has_features ? few : many;  // without values fewer points are not sorted
        if (num_features > 130 && (mode == VoxelMode::mean || parts > 1)) continue;  // the CPU takes seconds for each
        VoxelRun run{{mode}};
        run.num_features = has_features ? num_features : 0;
        run.options.deterministic = mode == VoxelMode::mean;
        run.parts = parts;
        SCOPED_TRACE(run.name());
        const VoxelResult result = run_voxelize(gpu(), cloud, run), wanted = run_voxelize(cpu(), cloud, run);
        EXPECT_TRUE(result.output == wanted.output) << "not the CPU's bits";
        EXPECT_EQ(result.stats.num_outside, wanted.stats.num_outside);
        if (num_features <= 8) expect_voxels(cloud, run, result);
      }
}

/// Bins of more points than there is room for features: of single ones, of voxels of several and of very many points,
/// some are read from memory, and rows of all three kinds are written after the others.
TEST_F(SensorGpuTest, BinsOfMorePointsThanFitIn) {
  const VoxelGrid grid{{0, 0, 0}, 1, {128, 128, 131}};
  std::mt19937_64 generator(23);
  std::uniform_real_distribution<float> unit(0, 1);
  for (const int parts : {1, 3}) {  // of which each has as many points
    Cloud cloud{"uneven bins", grid, {}};
    const auto add = [&](float x, float y, float z) { cloud.points.insert(cloud.points.end(), {x, y, z}); };
    for (int i = 0; i < parts * 510'000; ++i) {
      const auto run = static_cast<float>(i / 10 % 120);  // of 64 voxels, most of which are in one bin
      if (i % 10 < 8)
        add(128 * unit(generator), 128 * unit(generator), 131 * unit(generator));
      else if (i % 100 < 99)
        add(run + 1 + unit(generator), 5 + unit(generator), 1 + 64 * unit(generator));
      else
        add(run + 1 + unit(generator), 5 + unit(generator), 33 + 2 * unit(generator));
    }
    for (const VoxelMode mode : {VoxelMode::mean, VoxelMode::max})
      for (const DType type : {DType::f32, DType::bf16})
        for (const int64_t skip : {0, 1}) {
          VoxelRun run{{mode}};
          run.options.deterministic = mode == VoxelMode::mean;
          run.num_features = 8, run.type = type, run.skip_elements = skip, run.parts = parts;
          SCOPED_TRACE(run.name());
          const VoxelResult result = run_voxelize(gpu(), cloud, run), wanted = run_voxelize(cpu(), cloud, run);
          EXPECT_TRUE(result.output == wanted.output) << "not the CPU's bits";
          EXPECT_EQ(result.counts, wanted.counts);
        }
  }
}

/// Counts of large grids: bins that blocks share because they are overfull, or because one voxel has more than 16 bits
/// hold; and more tiles than are looked up at once.
TEST_F(SensorGpuTest, CountsOfLargeGrids) {
  struct Case {
    int64_t num_points, in_one, in_column;  // the others are spread out
  };
  const VoxelGrid grid{{-1, 2, 0}, 0.5f, {256, 250, 259}};
  for (const Case& c : {Case{300'000, 0, 0}, Case{3'000'000, 1'000'000, 0}, Case{9'000'000, 66'000, 0},
                        Case{3'000'000, 0, 700'000}, Case{34'000'000, 100'000, 3'000'000}})
    for (const int64_t skip : {0, 1}) {
      Cloud cloud{"large grid", grid, {}};
      cloud.points.resize(static_cast<size_t>(c.num_points) * 3);
      std::mt19937_64 generator(31);
      for (int64_t i = 0; i < c.num_points; ++i)
        for (size_t axis = 0; axis < 3; ++axis) {
          // Overfull places take turns with the others, all over the cloud.
          const int64_t turn = i * 7919 % c.num_points;
          const float random = static_cast<float>(generator() >> 40) * 0x1p-24f;
          const float size = static_cast<float>(grid.size[axis]);
          const float at = turn < c.in_one                             ? 100.25f + 0.5f * random
                           : turn < c.in_one + c.in_column && axis < 2 ? 33.25f + 0.5f * random
                                                                       : (size + 2) * random - 1;
          cloud.points[static_cast<size_t>(i) * 3 + axis] = grid.minimum[axis] + at * grid.voxel_size;
        }
      VoxelRun run{{VoxelMode::count}};
      run.skip_elements = skip;
      SCOPED_TRACE(fmt::format("{} points, {} in one voxel, {} in a column, {}", c.num_points, c.in_one, c.in_column,
                               run.name()));
      const VoxelResult result = run_voxelize(gpu(), cloud, run), wanted = run_voxelize(cpu(), cloud, run);
      EXPECT_TRUE(result.output == wanted.output) << "not the CPU's numbers";
      EXPECT_EQ(result.stats.num_outside, wanted.stats.num_outside);
      EXPECT_GT(result.stats.num_outside, 0);
    }
}

/// Grids with more voxels than one pass over the points can fill.
TEST_F(SensorGpuTest, GridsOfSeveralSlabs) {
  Cloud cloud = large_clouds().front();
  const auto expect_cpu_bits = [&](const VoxelRun& run) {
    SCOPED_TRACE(run.name());
    EXPECT_TRUE(run_voxelize(gpu(), cloud, run).output == run_voxelize(cpu(), cloud, run).output);
  };
  cloud.grid = {{-4, -4, -4}, 0.011f, {760, 740, 720}};
  expect_cpu_bits({{VoxelMode::bitmask}});
  cloud.grid = {{-4, -4, -4}, 0.016f, {520, 520, 510}};
  VoxelRun values{{VoxelMode::max}};
  values.num_features = 1;
  expect_cpu_bits(values);
  values.options.mode = VoxelMode::mean;
  values.options.deterministic = true;
  expect_cpu_bits(values);
}

TEST_F(SensorGpuTest, SmLimitedDevicesGiveTheSame) {
  const FuseCase& fuse_case = fuse_cases()[3];
  for (const double share : {0.07, 0.5}) {
    SCOPED_TRACE(share);
    const auto limited = std::move(make_cuda_devices({0}, {share}).front());
    const auto limited_stream = limited->make_stream("sensor");
    const auto limited_ops = make_cuda_sensor_ops(*limited);
    const SensorBench part{*limited, *limited_stream, *limited_ops};
    ASSERT_LT(limited->spec().sm_count, device->spec().sm_count);
    FuseRun fuse(part, fuse_case, DType::bf16, Extrapolation::hold);
    fuse.enqueue();
    expect_fused(fuse_case, DType::bf16, Extrapolation::hold, fuse.output());
    for (const VoxelMode mode : kVoxelModes)
      for (const VoxelRun& run : voxel_runs(mode, 0)) {
        const Cloud& cloud = clouds().back();
        SCOPED_TRACE(cloud.name + ", " + run.name());
        expect_voxels(cloud, run, run_voxelize(part, cloud, run));
      }
  }
}

/// Few multiprocessors: each has many tiles, whose points are read while the tile before is sorted.
TEST_F(SensorGpuTest, ManyTilesAMultiprocessor) {
  const auto limited = std::move(make_cuda_devices({0}, {0.07}).front());
  const auto limited_stream = limited->make_stream("sensor");
  const auto limited_ops = make_cuda_sensor_ops(*limited);
  Cloud cloud = large_clouds().front();
  const VoxelGrid usual = cloud.grid, fine{{-4, -4, -4}, 0.03125f, {256, 256, 250}};  // whose bins of marks are largest
  for (const VoxelMode mode : {VoxelMode::count, VoxelMode::occupancy, VoxelMode::bitmask, VoxelMode::max})
    for (const int64_t skip : {0, 1})
      for (const OutOfBounds bounds : {OutOfBounds::drop, OutOfBounds::clamp})
        for (const bool fast_quotient : {false, true}) {
          VoxelRun run{{mode, VoxelLayout::xyz, bounds}};
          run.num_features = has_values(mode) ? 2 : 0;
          run.skip_elements = skip;
          cloud.grid = has_values(mode) ? usual : fine;
          run.options.fast_quotient = fast_quotient;
          SCOPED_TRACE(fmt::format("{}, fast quotient {}", run.name(), fast_quotient));
          const VoxelResult result = run_voxelize({*limited, *limited_stream, *limited_ops}, cloud, run);
          const VoxelResult whole = run_voxelize(gpu(), cloud, run);  // a tile each at most
          EXPECT_TRUE(result.output == whole.output) << "not the whole device's bits";
          EXPECT_EQ(result.stats.num_outside, whole.stats.num_outside);
          if (fast_quotient) continue;  // the CPU has none
          const VoxelResult wanted = run_voxelize(cpu(), cloud, run);
          EXPECT_TRUE(result.output == wanted.output) << "not the CPU's bits";
          EXPECT_EQ(result.stats.num_outside, wanted.stats.num_outside);
        }
}

/// What GPUs before Hopper have: kernels that start one after the other, and too little shared memory to read ahead.
TEST_F(SensorGpuTest, GpusBeforeHopper) {
  constexpr ChipLimits kLimits{99 << 10, false};
  for (const double share : {0.07, 1.0}) {
    const auto limited = std::move(make_cuda_devices({0}, {share}).front());
    const auto limited_stream = limited->make_stream("sensor");
    const auto limited_ops = make_cuda_sensor_ops(*limited, kLimits);
    for (const Cloud& cloud : large_clouds())
      for (const VoxelMode mode : kVoxelModes) {
        VoxelRun run{{mode}};
        run.num_features = has_values(mode) ? 8 : 0;
        run.options.deterministic = mode == VoxelMode::mean;
        SCOPED_TRACE(fmt::format("{}, {}, share {}", cloud.name, run.name(), share));
        const VoxelResult result = run_voxelize({*limited, *limited_stream, *limited_ops}, cloud, run);
        EXPECT_TRUE(result.output == run_voxelize(cpu(), cloud, run).output) << "not the CPU's bits";
      }
  }
}

/// Captured once and replayed, on inputs that have changed since: what an eager call gives.
TEST_F(SensorGpuTest, FuseInAGraphIsEager) {
  for (const FuseCase& fuse_case : fuse_cases())
    for (const Extrapolation rule : kRules) {
      if (fuse_case.hold_only && rule != Extrapolation::hold) continue;
      SCOPED_TRACE(fuse_case.name + ", " + std::string(amdahl::to_string(rule)));
      FuseRun eager(gpu(), fuse_case, DType::f32, rule), replayed(gpu(), fuse_case, DType::f32, rule);
      eager.enqueue();
      const auto graph = device->capture(*stream, [&] { replayed.enqueue(); });
      for (int replay = 0; replay < 2; ++replay) {
        graph->launch(*stream);
        EXPECT_TRUE(same_numbers(replayed.output(), eager.output(), DType::f32)) << "replay " << replay;
        replayed.spoil_output();
      }
    }
}

TEST_F(SensorGpuTest, VoxelizeInAGraphIsEager) {
  for (const VoxelMode mode : kVoxelModes)
    for (size_t i = 0; i < clouds().size(); i += 3)
      for (VoxelRun run : voxel_runs(mode, i)) {
        if (run.parts != 1 || (mode == VoxelMode::mean && !run.options.deterministic)) continue;
        const Cloud& cloud = clouds()[i];
        SCOPED_TRACE(cloud.name + ", " + run.name());
        const VoxelResult eager = run_voxelize(gpu(), cloud, run);
        CloudPart part = whole_cloud(gpu(), cloud, run);
        const auto graph = device->capture(*stream, [&] {
          if (run.options.deterministic) part.enqueue_scale(cloud.num_points());
          part.enqueue();
        });
        for (int replay = 0; replay < 2; ++replay) {
          graph->launch(*stream);
          EXPECT_TRUE(part.output() == eager.output) << "replay " << replay;
          EXPECT_EQ(part.counts(), eager.counts);
          EXPECT_EQ(part.stats().num_nan, eager.stats.num_nan);
          EXPECT_EQ(part.stats().num_outside, eager.stats.num_outside);
          part.spoil_output();
        }
      }
}

}  // namespace
}  // namespace amdahl::test
