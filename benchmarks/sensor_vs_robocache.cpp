// Our sensor operations beside RoboCache's CUDA kernels, which are built from a checkout of theirs, on the same GPU and
// inputs, in alternating blocks. Prints a line a case and writes Records (kind "sensor-peer"), series "ours" and
// "peer". Usage: sensor_vs_robocache [records.jsonl [part of the cases' names]]
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <numeric>
#include <random>

#include "sensor/measure/data.h"
#include "sensor_peer_machine.h"
#include "spec/json.h"
#include "stats/bootstrap.h"
#include "stats/percentile.h"

// What their sources define; CMakeLists.txt builds them.
enum VoxelMode { COUNT, OCCUPANCY, MEAN, MAX };
void multimodal_fusion_cuda(const void*, const float*, const void*, const float*, const void*, const float*,
                            const float*, void*, int, int, int, int, int, int, int, int, bool, cudaStream_t);
void voxelize_cuda(const float*, const float*, void*, void*, int, int, float3, float, int, int, int, VoxelMode,
                   cudaStream_t);
extern "C" void launch_resample_bf16(const void*, const float*, const float*, void*, int, int, int, int, cudaStream_t);
extern "C" void launch_resample_fp32(const float*, const float*, const float*, float*, int, int, int, int,
                                     cudaStream_t);

namespace {

using namespace amdahl;

constexpr int kBlocks = 30;               // of each side
constexpr size_t kColdBytes = 150 << 20;  // between two uses of a buffer: more than twice an H200's L2

/// One way to do a case's work on the buffers of set `set`.
using Call = std::function<void(int set)>;

struct Case {
  std::string name;
  Call ours, peer;
  int sets = 1;             // of buffers
  double useful_bytes = 0;  // of a call: each input and output once
  std::string agreement;    // of the results, in words
  std::map<std::string, AxisValue> axes;
};

class Runner {
 public:
  Runner(Machine& machine, std::ofstream& out, std::string only)
      : machine_(machine), out_(out), only_(std::move(only)) {}

  /// Of names that begin so.
  bool may_want(const std::string& begin) const {
    return only_.find(begin) != std::string::npos || begin.find(only_) != std::string::npos;
  }
  bool wants(const std::string& name) const { return name.find(only_) != std::string::npos; }

  /// What memory does at best: a copy of more than the cache holds.
  void run_copy() {
    constexpr size_t kBytes = size_t{1} << 30;
    const auto a = machine_.put(machine_.normal(kBytes / sizeof(float))), b = machine_.device->allocate(kBytes);
    std::vector<double> us;
    for (int i = 0; i < kBlocks; ++i) {
      const auto start = machine_.device->make_event(), end = machine_.device->make_event();
      machine_.stream->stamp(*start);
      machine_.device->copy_within(*machine_.stream, b->data(), a->data(), kBytes);
      machine_.stream->stamp(*end);
      machine_.stream->synchronize(soon());
      us.push_back(machine_.device->elapsed_us(*start, *end));
    }
    Record record;
    record.axes = {{"op", std::string("copy")}, {"bytes", int64_t{kBytes}}, {"cache", std::string("cold")}};
    record.series = {{"copy", "us", us}, bandwidth_of(2.0 * kBytes, us)};
    write(record);
    fmt::print("copy of 1 GiB within the device: {:.0f} GB/s read and written\n",
               2.0 * kBytes / percentile(us, 50) * 1e-3);
  }

  void run(const Case& test) {
    for (const bool cold : {true, false}) {
      const int calls = cold ? std::max(test.sets, 4) : 20;
      std::vector<std::unique_ptr<Graph>> graphs;
      for (const Call* side : {&test.ours, &test.peer}) graphs.push_back(capture(*side, calls, cold ? test.sets : 1));
      std::vector<double> us[2];
      std::vector<int> order(2 * kBlocks);
      for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i % 2);
      std::shuffle(order.begin(), order.end(), machine_.random);
      for (const int side : order) us[side].push_back(replay_us(*graphs[static_cast<size_t>(side)]) / calls);
      report(test, cold ? "cold" : "hot", "graph", us[0], us[1]);
    }
    std::vector<double> us[2];
    for (int i = 0; i < 2 * kBlocks; ++i) us[i % 2].push_back(call_us(i % 2 == 0 ? test.ours : test.peer));
    report(test, "hot", "call", us[0], us[1]);
  }

 private:
  std::unique_ptr<Graph> capture(const Call& call, int calls, int sets) {
    call(0);
    machine_.stream->synchronize(soon());
    auto graph = machine_.device->capture(*machine_.stream, [&] {
      for (int i = 0; i < calls; ++i) call(i % sets);
    });
    for (int i = 0; i < 3; ++i) graph->launch(*machine_.stream);
    machine_.stream->synchronize(soon());
    return graph;
  }
  double replay_us(Graph& graph) {
    const auto start = machine_.device->make_event(), end = machine_.device->make_event();
    machine_.stream->stamp(*start);
    graph.launch(*machine_.stream);
    machine_.stream->stamp(*end);
    machine_.stream->synchronize(soon());
    return machine_.device->elapsed_us(*start, *end);
  }
  double call_us(const Call& call) {
    const auto start = std::chrono::steady_clock::now();
    call(0);
    machine_.stream->synchronize(soon());
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
  }
  void report(const Case& test, const char* cache, const char* launch, const std::vector<double>& ours,
              const std::vector<double>& peer) {
    const double a = percentile(ours, 50), b = percentile(peer, 50);
    const auto ratio = bootstrap_ratio_of_medians({peer, ours});
    fmt::print("{:<58} {:<4} {:<5} {:>9.2f} {:>9.2f}  {:>5.2f}x [{:.2f}, {:.2f}] {:>6.0f} GB/s  {}\n", test.name, cache,
               launch, a, b, b / a, ratio ? ratio->low : 0, ratio ? ratio->high : 0, test.useful_bytes / a * 1e-3,
               test.agreement);
    std::fflush(stdout);
    Record record;
    record.axes = test.axes;
    record.axes["case"] = test.name, record.axes["cache"] = std::string(cache);
    record.axes["launch"] = std::string(launch), record.axes["agreement"] = test.agreement;
    record.series = {{"ours", "us", ours}, {"peer", "us", peer}, bandwidth_of(test.useful_bytes, ours)};
    write(record);
  }
  static Series bandwidth_of(double bytes, const std::vector<double>& us) {
    std::vector<double> gb_per_s;
    for (const double one : us) gb_per_s.push_back(bytes / one * 1e-3);
    return {"bandwidth", "GB/s", gb_per_s};
  }
  void write(Record& record) {
    record.kind = "sensor-peer";
    record.provenance = machine_.provenance;
    if (out_.is_open()) out_ << record_to_json(record) << "\n" << std::flush;
  }

  Machine& machine_;
  std::ofstream& out_;
  std::string only_;
};

std::string same_bytes(const std::vector<char>& a, const std::vector<char>& b) {
  size_t differ = 0;
  for (size_t i = 0; i + 4 <= a.size() && i + 4 <= b.size(); i += 4) differ += std::memcmp(&a[i], &b[i], 4) != 0;
  return a.size() != b.size() ? "sizes differ" : differ == 0 ? "bit-equal" : fmt::format("{} words differ", differ);
}

// ---- streams onto times ----

struct Shape {
  int length, width;
};

std::vector<float> sorted_times(Machine& machine, int batch, int length) {
  std::uniform_real_distribution<float> draw(0, 1);
  std::vector<float> times(static_cast<size_t>(batch) * static_cast<size_t>(length));
  for (float& time : times) time = draw(machine.random);
  for (int b = 0; b < batch; ++b) std::sort(times.begin() + b * length, times.begin() + (b + 1) * length);
  return times;
}

void run_fuse(Machine& machine, Runner& runner, int batch, const std::vector<Shape>& shapes, int targets, DType type) {
  int width = 0;
  double bytes = batch * targets * 4.0;
  std::string text;
  for (const Shape& shape : shapes) {
    width += shape.width;
    bytes += static_cast<double>(batch) * shape.length * (shape.width * static_cast<double>(size_of(type)) + 4);
    text += fmt::format("{}{}x{}", text.empty() ? "" : ",", shape.length, shape.width);
  }
  Case test;
  const bool fuse = shapes.size() == 3;
  test.name = fmt::format("{} B={} {} -> {} {}", fuse ? "fuse" : "resample", batch, text, targets, to_string(type));
  if (!runner.wants(test.name)) return;
  const size_t out_bytes = static_cast<size_t>(batch) * static_cast<size_t>(targets * width) * size_of(type);
  bytes += static_cast<double>(out_bytes);
  const int sets = static_cast<int>(std::clamp<double>(static_cast<double>(kColdBytes) / bytes + 1, 1, 300));
  std::vector<std::vector<std::unique_ptr<Buffer>>> data(static_cast<size_t>(sets)), times(data.size());
  std::vector<std::unique_ptr<Buffer>> goals, outs;
  std::vector<FuseProblem> problems;
  for (size_t set = 0; set < data.size(); ++set) {
    FuseProblem problem;
    for (const Shape& shape : shapes) {
      data[set].push_back(machine.put(
          machine.normal(static_cast<size_t>(batch) * static_cast<size_t>(shape.length * shape.width)), type));
      times[set].push_back(machine.put(sorted_times(machine, batch, shape.length)));
      problem.streams.push_back({data[set].back()->data(), times[set].back()->as<float>(), shape.length, shape.width});
    }
    goals.push_back(machine.put(sorted_times(machine, batch, targets)));
    outs.push_back(machine.device->allocate(out_bytes));
    problem.targets = goals.back()->as<float>(), problem.output = outs.back()->data();
    problem.type = type, problem.batch = batch, problem.num_targets = targets;
    problems.push_back(problem);
  }
  test.axes = {{"op", std::string(fuse ? "fuse" : "resample")},
               {"batch", int64_t{batch}},
               {"dtype", std::string(to_string(type))}};
  test.sets = sets, test.useful_bytes = bytes;
  test.ours = [&](int set) { machine.ops->fuse(*machine.stream, problems[static_cast<size_t>(set)]); };
  test.peer = [&](int set) {
    const FuseProblem& p = problems[static_cast<size_t>(set)];
    const auto& s = p.streams;
    if (fuse)
      multimodal_fusion_cuda(s[0].data, s[0].times, s[1].data, s[1].times, s[2].data, s[2].times, p.targets, p.output,
                             batch, shapes[0].length, shapes[0].width, shapes[1].length, shapes[1].width,
                             shapes[2].length, shapes[2].width, targets, type == DType::bf16, machine.handle());
    else if (type == DType::bf16)
      launch_resample_bf16(s[0].data, s[0].times, p.targets, p.output, batch, shapes[0].length, targets,
                           shapes[0].width, machine.handle());
    else
      launch_resample_fp32(static_cast<const float*>(s[0].data), s[0].times, p.targets, static_cast<float*>(p.output),
                           batch, shapes[0].length, targets, shapes[0].width, machine.handle());
  };
  FuseProblem compatible = problems[0];
  compatible.extrapolation = fuse ? Extrapolation::linear : Extrapolation::linear_right;
  machine.ops->fuse(*machine.stream, compatible);
  const std::vector<char> ours = machine.take(*outs[0]);
  test.peer(0);
  test.agreement = same_bytes(ours, machine.take(*outs[0]));
  runner.run(test);
}

// ---- points into voxels ----

struct Cloud {
  std::string name;
  int points;
  int edge;  // voxels of each axis
};

/// Uniform over the grid, over an eighth of it, over ten times its edges (3 % inside at 128), or rings as a LiDAR sees,
/// in any order; or a scan: what a LiDAR gives, in its order.
std::vector<float> make_points(Machine& machine, const Cloud& cloud, const VoxelGrid& grid) {
  if (cloud.name == "scan") {
    SensorJob job;
    job.num_items = cloud.points, job.grid = grid, job.distribution = PointDistribution::scan;
    return make_items(job, {0, job.num_items}).points;
  }
  const float extent = grid.voxel_size * static_cast<float>(cloud.edge);
  std::uniform_real_distribution<float> unit(0, 1);
  std::normal_distribution<float> normal;
  std::vector<float> points(static_cast<size_t>(cloud.points) * 3);
  for (size_t i = 0; i < points.size(); i += 3) {
    if (cloud.name == "rings") {
      const float range = extent * 0.45f * std::pow(unit(machine.random), 2.0f),
                  angle = 6.2831853f * unit(machine.random);
      points[i] = extent / 2 + range * std::cos(angle), points[i + 1] = extent / 2 + range * std::sin(angle);
      points[i + 2] = extent * (0.2f + 0.01f * normal(machine.random));
      continue;
    }
    const float scale = cloud.name == "corner" ? 0.5f : cloud.name == "sparse" ? 3.125f : 1.0f;
    for (size_t axis = 0; axis < 3; ++axis) points[i + axis] = extent * scale * unit(machine.random);
  }
  return points;
}

void run_voxelize(Machine& machine, Runner& runner, const Cloud& cloud) {
  constexpr int kFeatures = 8;
  constexpr float kEdge = 0.0625f;
  const std::string cloud_name = fmt::format("voxelize {} {} -> {}^3 ", cloud.name, cloud.points, cloud.edge);
  if (!runner.may_want(cloud_name)) return;
  const VoxelGrid grid{{0, 0, 0}, kEdge, {cloud.edge, cloud.edge, cloud.edge}};
  const auto points = machine.put(make_points(machine, cloud, grid));
  const auto features = machine.put(machine.normal(static_cast<size_t>(cloud.points) * kFeatures));
  VoxelizeProblem problem;
  problem.points = points->as<float>(), problem.features = features->data();
  problem.num_points = cloud.points, problem.num_features = kFeatures;
  problem.grid = grid;
  const auto voxels = static_cast<size_t>(num_voxels(problem.grid));
  const auto out = machine.device->allocate(voxels * kFeatures * sizeof(float));
  const auto counts = machine.device->allocate(voxels * sizeof(int32_t));
  const auto scale = machine.device->allocate(sizeof(float)), stats = machine.device->allocate(sizeof(VoxelizeCounts));
  problem.output = out->data(), problem.scale = scale->as<float>(), problem.stats = stats->as<VoxelizeCounts>();
  problem.options.mode = amdahl::VoxelMode::mean;
  const auto scratch = machine.device->allocate(machine.ops->voxelize_scratch_bytes(problem));
  problem.scratch = scratch->data();
  struct Mode {
    amdahl::VoxelMode mode;
    ::VoxelMode peer;
    bool deterministic;
  };
  for (const Mode& mode : {Mode{amdahl::VoxelMode::count, COUNT, false},
                           {amdahl::VoxelMode::occupancy, OCCUPANCY, false},
                           {amdahl::VoxelMode::bitmask, OCCUPANCY, false},
                           {amdahl::VoxelMode::mean, MEAN, false},
                           {amdahl::VoxelMode::mean, MEAN, true},
                           {amdahl::VoxelMode::max, MAX, false}}) {
    problem.options = {};
    problem.options.mode = mode.mode, problem.options.deterministic = mode.deterministic;
    const bool values = mode.peer == MEAN || mode.peer == MAX;
    const size_t grid_bytes = voxels * sizeof(float) * (values ? kFeatures : 1);
    Case test;
    test.name = fmt::format("{}{}{}", cloud_name, to_string(mode.mode), mode.deterministic ? " deterministic" : "");
    if (!runner.wants(test.name)) continue;
    test.axes = {{"op", std::string("voxelize")},
                 {"points", int64_t{cloud.points}},
                 {"edge", int64_t{cloud.edge}},
                 {"distribution", cloud.name},
                 {"voxel_mode", std::string(to_string(mode.mode))},
                 {"deterministic", mode.deterministic}};
    test.useful_bytes = cloud.points * (12.0 + (values ? 4.0 * kFeatures : 0)) +
                        static_cast<double>(mode.mode == amdahl::VoxelMode::bitmask ? voxels / 8 : grid_bytes);
    test.ours = [&](int) {
      if (mode.deterministic)
        machine.ops->fixed_point_scale(*machine.stream, problem, cloud.points, scale->as<float>());
      machine.ops->voxelize(*machine.stream, problem);
    };
    test.peer = [&](int) {  // they zero what they return, in torch.zeros
      cudaMemsetAsync(out->data(), 0, grid_bytes, machine.handle());
      if (mode.peer == MEAN) cudaMemsetAsync(counts->data(), 0, voxels * sizeof(int32_t), machine.handle());
      voxelize_cuda(points->as<float>(), features->as<float>(), out->data(), counts->data(), cloud.points, kFeatures,
                    float3{0, 0, 0}, kEdge, cloud.edge, cloud.edge, cloud.edge, mode.peer, machine.handle());
    };
    if (mode.mode != amdahl::VoxelMode::bitmask && mode.mode != amdahl::VoxelMode::mean) {
      VoxelizeProblem compatible = problem;
      compatible.options = VoxelizeOptions::robocache(mode.mode);
      machine.device->fill_zero(*machine.stream, out->data(), out->bytes());
      machine.ops->voxelize(*machine.stream, compatible);
      const std::vector<char> ours = machine.take(*out);
      machine.device->fill_zero(*machine.stream, out->data(), out->bytes());
      test.peer(0);
      test.agreement = same_bytes(ours, machine.take(*out));
    }
    runner.run(test);
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    Machine machine;
    std::ofstream out;
    if (argc > 1) out.open(argv[1]);
    const std::string only = argc > 2 ? argv[2] : "";
    Runner runner(machine, out, only);
    fmt::print("{:<58} {:<4} {:<5} {:>9} {:>9}\n", "case", "", "", "ours us", "peer us");
    runner.run_copy();
    const std::vector<Shape> canonical{{30, 512}, {100, 64}, {200, 12}};
    for (const int batch : {4, 256, 1024, 2048}) run_fuse(machine, runner, batch, canonical, 50, DType::bf16);
    for (const int batch : {4, 1024}) run_fuse(machine, runner, batch, canonical, 50, DType::f32);
    run_fuse(machine, runner, 256, {{100, 512}, {200, 128}, {300, 64}}, 128, DType::bf16);
    run_fuse(machine, runner, 256, {{150, 2048}, {500, 64}, {1000, 16}}, 250, DType::bf16);
    for (const DType type : {DType::bf16, DType::f32}) {
      run_fuse(machine, runner, 32, {{500, 256}}, 256, type);
      run_fuse(machine, runner, 1024, {{500, 256}}, 256, type);
    }
    for (const Cloud& cloud : {Cloud{"uniform", 500000, 128}, Cloud{"corner", 500000, 128},
                               Cloud{"sparse", 500000, 128}, Cloud{"rings", 500000, 128}, Cloud{"scan", 100000, 128},
                               Cloud{"scan", 500000, 128}, Cloud{"uniform", 4000000, 128}, Cloud{"scan", 4000000, 128},
                               Cloud{"uniform", 4000000, 256}, Cloud{"uniform", 20000000, 256}})
      run_voxelize(machine, runner, cloud);
    return 0;
  } catch (const Error& error) {
    fmt::print(stderr, "{}\n", error.line());
    return exit_code(error.cause());
  }
}
