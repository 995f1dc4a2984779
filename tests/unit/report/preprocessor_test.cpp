// The public preprocessing operations on the host: what they refuse, naming it, before anything is written, and that
// what they accept comes out right.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "amdahl/sensor.h"
#include "special_floats.h"

namespace amdahl {
namespace {

constexpr float kUntouched = -77;

// Fails unless `call` throws that cause with all of `words` in its message and remedy.
void expect_refused(const std::function<void()>& call, const std::vector<std::string>& words,
                    Cause cause = Cause::usage) {
  try {
    call();
    ADD_FAILURE() << "not refused";
  } catch (const Error& error) {
    EXPECT_EQ(to_string(error.cause()), to_string(cause)) << error.line();
    EXPECT_FALSE(error.remedy().empty()) << error.line();
    for (const std::string& word : words)
      EXPECT_NE(error.line().find(word), std::string::npos) << "no \"" << word << "\" in: " << error.line();
  }
}

/// Two streams of three and two samples in two rows onto two times, as good as can be until a test spoils it.
struct FuseCall {
  std::vector<float> first = {0, 10, 20, 0, 1, 2}, first_times = {0, 1, 2, 5, 6, 7};
  std::vector<float> second = {1, 2, 3, 4, 5, 6, 7, 8}, second_times = {0, 1, 5, 6};
  std::vector<float> target_times = {0.5f, 9, 4, 6.5f}, result = std::vector<float>(12, kUntouched);
  std::vector<SensorStream> streams;
  ConstTensor targets;
  Tensor output;
  FuseOptions options;

  FuseCall() {
    streams = {{{first.data(), DType::f32, {2, 3, 1}}, {first_times.data(), DType::f32, {2, 3}}},
               {{second.data(), DType::f32, {2, 2, 2}}, {second_times.data(), DType::f32, {2, 2}}}};
    targets = {target_times.data(), DType::f32, {2, 2}};
    output = {result.data(), DType::f32, {2, 2, 3}};
  }
  FuseCall(const FuseCall&) = delete;
  FuseCall& operator=(const FuseCall&) = delete;
  void run() { Preprocessor::on_host().fuse_multimodal(streams, targets, output, options); }
};

void expect_fuse_refused(const std::function<void(FuseCall&)>& spoil, const std::vector<std::string>& words,
                         Cause cause = Cause::usage) {
  FuseCall call;
  spoil(call);
  expect_refused([&] { call.run(); }, words, cause);
  EXPECT_EQ(call.result, std::vector<float>(12, kUntouched));
}

TEST(Preprocessor, FusesStreamsSideBySide) {
  FuseCall call;
  call.run();
  EXPECT_EQ(call.result, (std::vector<float>{5, 2, 3, 20, 3, 4, 0, 5, 6, 1.5f, 7, 8}));
}

TEST(Preprocessor, ResamplesOneTrajectory) {
  FuseCall call;
  std::vector<float> result(4, kUntouched);
  const Tensor output{result.data(), DType::f32, {2, 2, 1}};
  Preprocessor::on_host().resample_trajectories(call.streams[0], call.targets, output);
  EXPECT_EQ(result, (std::vector<float>{5, 20, 0, 1.5f}));
  FuseOptions linear;
  linear.extrapolation = Extrapolation::linear;
  Preprocessor::on_host().resample_trajectories(call.streams[0], call.targets, output, linear);
  EXPECT_FLOAT_EQ(result[1], 90);
  EXPECT_FLOAT_EQ(result[2], -1);
}

TEST(Preprocessor, NothingToFuseIsNoError) {
  FuseCall call;
  call.targets = {nullptr, DType::f32, {2, 0}};
  call.output = {nullptr, DType::f32, {2, 0, 3}};
  EXPECT_NO_THROW(call.run());
}

TEST(Preprocessor, RefusesShapesByName) {
  expect_fuse_refused([](FuseCall& call) { call.streams.clear(); }, {"streams", "at least one"});
  expect_fuse_refused([](FuseCall& call) { call.targets.shape = {4}; }, {"target_times", "1 dimensions", "[B, T]"});
  expect_fuse_refused([](FuseCall& call) { call.targets.shape = {-2, 2}; }, {"target_times", "[-2, 2]"});
  expect_fuse_refused([](FuseCall& call) { call.streams[1].data.shape = {2, 4}; }, {"streams[1].data", "[B, S, D]"});
  expect_fuse_refused(
      [](FuseCall& call) {
        call.streams[1].data.shape = {1, 4, 2};
      },
      {"streams[1].data", "[1, 4, 2]", "[2, any, any]"});
  expect_fuse_refused([](FuseCall& call) { call.streams[0].times.shape = {2, 3, 1}; }, {"streams[0].times", "[B, S]"});
  expect_fuse_refused(
      [](FuseCall& call) {
        call.streams[0].times.shape = {2, 2};
      },
      {"streams[0].times", "[2, 2]", "[2, 3]"});
  expect_fuse_refused([](FuseCall& call) { call.streams[0].times.shape = {3, 2}; }, {"streams[0].times", "[3, 2]"});
  expect_fuse_refused(
      [](FuseCall& call) {
        call.streams[0].data.shape = {2, 0, 1};
        call.streams[0].times.shape = {2, 0};
      },
      {"streams[0]", "no samples"});
  expect_fuse_refused([](FuseCall& call) { call.output.shape = {2, 2, 4}; }, {"output", "[2, 2, 4]", "[2, 2, 3]"});
  expect_fuse_refused([](FuseCall& call) { call.output.shape = {2, 3, 3}; }, {"output", "[2, 3, 3]"});
  expect_fuse_refused([](FuseCall& call) { call.output.shape = {}; }, {"output", "0 dimensions"});
}

TEST(Preprocessor, RefusesTypesByName) {
  expect_fuse_refused([](FuseCall& call) { call.streams[0].data.dtype = DType::i32; }, {"streams[0].data", "i32"});
  expect_fuse_refused([](FuseCall& call) { call.streams[1].data.dtype = DType::bf16; },
                      {"streams[1].data", "bf16", "f32"});
  expect_fuse_refused([](FuseCall& call) { call.streams[1].times.dtype = DType::f16; },
                      {"streams[1].times", "f16", "f32"});
  expect_fuse_refused([](FuseCall& call) { call.targets.dtype = DType::u32; }, {"target_times", "u32", "f32"});
  expect_fuse_refused([](FuseCall& call) { call.output.dtype = DType::f16; }, {"output", "f16", "f32"});
  expect_fuse_refused([](FuseCall& call) { call.output.strides = {1, 2, 4}; }, {"output", "strides", "dense"});
}

TEST(Preprocessor, RefusesMemoryByName) {
  expect_fuse_refused([](FuseCall& call) { call.streams[1].data.device = 0; }, {"streams[1].data", "GPU 0", "host"});
  expect_fuse_refused([](FuseCall& call) { call.streams[0].times.device = 3; }, {"streams[0].times", "GPU 3"});
  expect_fuse_refused([](FuseCall& call) { call.targets.device = 1; }, {"target_times", "GPU 1"});
  expect_fuse_refused([](FuseCall& call) { call.output.device = 0; }, {"output", "GPU 0"});
  expect_fuse_refused([](FuseCall& call) { call.streams[1].data.data = nullptr; }, {"streams[1].data", "no data"});
  expect_fuse_refused([](FuseCall& call) { call.streams[1].times.data = nullptr; }, {"streams[1].times", "no data"});
  expect_fuse_refused([](FuseCall& call) { call.targets.data = nullptr; }, {"target_times", "no data"});
  expect_fuse_refused([](FuseCall& call) { call.output.data = nullptr; }, {"output", "no data"});
}

TEST(Preprocessor, RefusesTimesByStreamBatchAndPosition) {
  expect_fuse_refused([](FuseCall& call) { call.second_times[3] = 4; },
                      {"streams[1].times", "batch 1", "position 1", "below"}, Cause::data_corrupt);
  expect_fuse_refused([](FuseCall& call) { call.first_times[2] = 0.5f; },
                      {"streams[0].times", "batch 0", "position 2", "below"}, Cause::data_corrupt);
  expect_fuse_refused([](FuseCall& call) { call.first_times[3] = kNan; },
                      {"streams[0].times", "batch 1", "position 0", "finite"}, Cause::non_finite);
  expect_fuse_refused([](FuseCall& call) { call.second_times[1] = kInfinity; },
                      {"streams[1].times", "batch 0", "position 1", "finite"}, Cause::non_finite);
  expect_fuse_refused([](FuseCall& call) { call.target_times[3] = -kInfinity; },
                      {"target_times", "batch 1", "position 1", "finite"}, Cause::non_finite);
  expect_fuse_refused(  // of several the first
      [](FuseCall& call) {
        call.target_times[0] = kNan;
        call.second_times[1] = kInfinity;
        call.first_times[2] = 0.5f;
      },
      {"streams[0].times", "batch 0", "position 2", "below"}, Cause::data_corrupt);
  FuseCall in_any_order;
  in_any_order.target_times = {9, 0.5f, 6.5f, 4};
  EXPECT_NO_THROW(in_any_order.run());
  FuseCall unchecked;
  unchecked.first_times[2] = 0.5f;
  unchecked.options.check_times = false;
  EXPECT_NO_THROW(unchecked.run());
}

/// Three points with two features into 2 x 3 x 4 voxels.
struct VoxelizeCall {
  std::vector<float> places = {0.5f, 0.5f, 0.5f, 1.5f, 2.5f, 3.5f, 0.5f, kNan, 9};
  std::vector<float> values = {1, -2, -3, 4, 5, 6};
  std::vector<float> result = std::vector<float>(48, kUntouched);
  ConstTensor points{places.data(), DType::f32, {3, 3}}, features{values.data(), DType::f32, {3, 2}};
  VoxelGrid grid{{0, 0, 0}, 1, {2, 3, 4}};
  Tensor output{result.data(), DType::f32, {2, 3, 4, 2}};
  VoxelizeOptions options;

  VoxelizeCall() { options.mode = VoxelMode::max; }
  VoxelizeCall(const VoxelizeCall&) = delete;
  VoxelizeCall& operator=(const VoxelizeCall&) = delete;
  VoxelizeStats run() { return Preprocessor::on_host().voxelize_pointcloud(points, features, grid, output, options); }
  void count() {
    options.mode = VoxelMode::count;
    output = {result.data(), DType::i32, {2, 3, 4}};
  }
};

void expect_voxelize_refused(const std::function<void(VoxelizeCall&)>& spoil, const std::vector<std::string>& words,
                             Cause cause = Cause::usage) {
  VoxelizeCall call;
  spoil(call);
  expect_refused([&] { call.run(); }, words, cause);
  EXPECT_EQ(call.result, std::vector<float>(48, kUntouched));
}

TEST(Preprocessor, VoxelizesAndCounts) {
  VoxelizeCall call;
  call.places[2] = 40;
  const VoxelizeStats stats = call.run();
  EXPECT_EQ(stats.num_points, 3);
  EXPECT_EQ(stats.num_nan, 1);
  EXPECT_EQ(stats.num_outside, 1);
  std::vector<float> wanted(48, 0.0f);
  wanted[46] = -3;
  wanted[47] = 4;
  EXPECT_EQ(call.result, wanted);
}

TEST(Preprocessor, EveryModeTakesAnEmptyCloud) {
  for (const VoxelMode mode :
       {VoxelMode::count, VoxelMode::occupancy, VoxelMode::bitmask, VoxelMode::mean, VoxelMode::max}) {
    SCOPED_TRACE(to_string(mode));
    VoxelizeCall call;
    call.count();
    call.options.mode = mode;
    call.points = {nullptr, DType::f32, {0, 3}};
    call.features = {nullptr, DType::f32, {0, 2}};
    if (mode == VoxelMode::bitmask) call.output = {call.result.data(), DType::u32, {1}};
    if (mode == VoxelMode::mean || mode == VoxelMode::max) call.output = {call.result.data(), DType::f32, {2, 3, 4, 2}};
    EXPECT_EQ(call.run().num_points, 0);
    EXPECT_EQ(call.result[0], 0);
  }
}

TEST(Preprocessor, LayoutTurnsTheShape) {
  VoxelizeCall call;
  call.count();
  call.options.layout = VoxelLayout::zyx;
  expect_refused([&] { call.run(); }, {"output", "[2, 3, 4]", "[4, 3, 2]", "[Z, Y, X]"});
  call.output.shape = {4, 3, 2};
  EXPECT_NO_THROW(call.run());
}

TEST(Preprocessor, RefusesCloudsByName) {
  expect_voxelize_refused([](VoxelizeCall& call) { call.points.shape = {9}; }, {"points", "[N, 3]"});
  expect_voxelize_refused([](VoxelizeCall& call) { call.points.shape = {3, 4}; }, {"points", "[3, 4]", "[any, 3]"});
  expect_voxelize_refused([](VoxelizeCall& call) { call.points.dtype = DType::bf16; }, {"points", "bf16"});
  expect_voxelize_refused([](VoxelizeCall& call) { call.points.device = 2; }, {"points", "GPU 2"});
  expect_voxelize_refused([](VoxelizeCall& call) { call.points.data = nullptr; }, {"points", "no data"});
  expect_voxelize_refused([](VoxelizeCall& call) { call.features = {}; }, {"features", "max"});
  expect_voxelize_refused([](VoxelizeCall& call) { call.features.shape = {6}; }, {"features", "[N, F]"});
  expect_voxelize_refused([](VoxelizeCall& call) { call.features.shape = {2, 3}; }, {"features", "[2, 3]", "[3, any]"});
  expect_voxelize_refused([](VoxelizeCall& call) { call.features.dtype = DType::u32; }, {"features", "u32"});
  expect_voxelize_refused([](VoxelizeCall& call) { call.features.device = 0; }, {"features", "GPU 0"});
  expect_voxelize_refused([](VoxelizeCall& call) { call.features.data = nullptr; }, {"features", "no data"});
  expect_voxelize_refused([](VoxelizeCall& call) { call.output.shape = {2, 3, 4}; }, {"output", "[X, Y, Z, F]"});
  expect_voxelize_refused([](VoxelizeCall& call) { call.output.shape = {2, 3, 4, 1}; }, {"output", "[2, 3, 4, 2]"});
  expect_voxelize_refused([](VoxelizeCall& call) { call.output.dtype = DType::i32; }, {"output", "i32", "f32"});
  expect_voxelize_refused([](VoxelizeCall& call) { call.output.device = 0; }, {"output", "GPU 0"});
  expect_voxelize_refused([](VoxelizeCall& call) { call.output.data = nullptr; }, {"output", "no data"});
  expect_voxelize_refused([](VoxelizeCall& call) { call.options.mode = VoxelMode::count; }, {"output", "[X, Y, Z]"});
  expect_voxelize_refused(
      [](VoxelizeCall& call) {
        call.options.mode = VoxelMode::bitmask;
        call.output = {call.result.data(), DType::i32, {1}};
      },
      {"output", "i32", "u32"});
  expect_voxelize_refused(
      [](VoxelizeCall& call) {
        call.options.mode = VoxelMode::bitmask;
        call.output = {call.result.data(), DType::u32, {24}};
      },
      {"output", "[24]", "[1]"});
}

TEST(Preprocessor, RefusesGridsThatAreNone) {
  for (const float size : {0.0f, -0.0f, -1.0f, kNan, kInfinity, -kInfinity})
    expect_voxelize_refused([&](VoxelizeCall& call) { call.grid.voxel_size = size; }, {"voxel_size"});
  for (const float minimum : {kNan, kInfinity, -kInfinity})
    expect_voxelize_refused([&](VoxelizeCall& call) { call.grid.minimum[1] = minimum; }, {"minimum"});
  for (const int64_t size : {int64_t{0}, int64_t{-3}, int64_t{1} << 40})
    expect_voxelize_refused([&](VoxelizeCall& call) { call.grid.size[2] = size; }, {"grid size", std::to_string(size)});
  const int64_t most = int64_t{1} << 24;
  expect_voxelize_refused(
      [&](VoxelizeCall& call) {
        call.grid.size = {most, most, most};
      },
      {"grid size", std::to_string(most)});
}

/// What a mean takes beside its output does not fit; nothing is read or written before that is known.
TEST(Preprocessor, SaysThatAGridIsAboveMemory) {
  expect_voxelize_refused(
      [](VoxelizeCall& call) {
        call.grid.size = {1 << 18, 1 << 18, 1 << 12};
        call.output.shape = {1 << 18, 1 << 18, 1 << 12, 2};
        call.options.mode = VoxelMode::mean;
      },
      {"GB"}, Cause::out_of_memory);
}

TEST(Preprocessor, IsUsableAfterARefusal) {
  VoxelizeCall call;
  Preprocessor host = Preprocessor::on_host();
  call.grid.voxel_size = 0;
  expect_refused([&] { host.voxelize_pointcloud(call.points, call.features, call.grid, call.output, call.options); },
                 {"voxel_size"});
  call.grid.voxel_size = 1;
  EXPECT_EQ(host.voxelize_pointcloud(call.points, call.features, call.grid, call.output, call.options).num_nan, 1);
}

}  // namespace
}  // namespace amdahl
