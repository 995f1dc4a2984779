// Times of one preprocessing call on the host, on data that another program wrote, so that both work on the same.
//
// usage: sensor_cpu_bench FOLDER fuse SAMPLES TYPE B T S D [S D ...]
//        sensor_cpu_bench FOLDER voxelize SAMPLES MODE N F VOXELS EDGE MINIMUM
//
// Reads raw little-endian arrays from FOLDER: data0, times0, data1, ... and targets, or points and features (f32).
// Writes the result to FOLDER/result and prints {"us": [...]}, one number a call, after two calls that are not timed.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <list>
#include <string>
#include <vector>

#include "amdahl/sensor.h"

namespace amdahl {
namespace {

using Bytes = std::vector<char>;

class Folder {
 public:
  explicit Folder(std::string path) : path_(std::move(path)) {}
  /// A tensor over the file of that name, which stays in memory as long as this.
  ConstTensor tensor(const std::string& name, DType type, const std::vector<int64_t>& shape) {
    std::ifstream file(path_ + "/" + name, std::ios::binary);
    arrays_.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    size_t bytes = size_of(type);
    for (const int64_t extent : shape) bytes *= static_cast<size_t>(extent);
    if (arrays_.back().size() != bytes)
      throw Error(Cause::data_corrupt, fmt::format("{} has {} bytes, not {}", name, arrays_.back().size(), bytes),
                  "shapes as in the file");
    return {arrays_.back().data(), type, shape};
  }
  Tensor output(DType type, const std::vector<int64_t>& shape) {
    size_t bytes = size_of(type);
    for (const int64_t extent : shape) bytes *= static_cast<size_t>(extent);
    arrays_.emplace_back(bytes);
    return {arrays_.back().data(), type, shape};
  }
  void write_result() {
    std::ofstream(path_ + "/result", std::ios::binary)
        .write(arrays_.back().data(), static_cast<std::streamsize>(arrays_.back().size()));
  }

 private:
  std::string path_;
  std::list<Bytes> arrays_;
};

template <class T>
T named(const std::string& name, const std::vector<T>& values) {
  for (const T value : values)
    if (to_string(value) == name) return value;
  throw Error(Cause::usage, fmt::format("\"{}\" is unknown", name), "see the head of sensor_cpu_bench.cpp");
}

std::function<void()> fuse_call(Preprocessor& host, Folder& folder, const std::vector<std::string>& words) {
  const DType type = named(words.at(0), std::vector{DType::f32, DType::bf16, DType::f16});
  const int64_t batch = std::stoll(words.at(1)), num_targets = std::stoll(words.at(2));
  std::vector<SensorStream> streams;
  int64_t width = 0;
  for (size_t i = 3; i < words.size(); i += 2) {
    const int64_t length = std::stoll(words.at(i)), columns = std::stoll(words.at(i + 1));
    const std::string number = std::to_string(streams.size());
    const ConstTensor data = folder.tensor("data" + number, type, {batch, length, columns});
    streams.push_back({data, folder.tensor("times" + number, DType::f32, {batch, length})});
    width += columns;
  }
  const ConstTensor targets = folder.tensor("targets", DType::f32, {batch, num_targets});
  const Tensor output = folder.output(type, {batch, num_targets, width});
  return [&host, streams, targets, output] { host.fuse_multimodal(streams, targets, output); };
}

std::function<void()> voxelize_call(Preprocessor& host, Folder& folder, const std::vector<std::string>& words) {
  VoxelizeOptions options;
  options.mode =
      named(words.at(0), std::vector{VoxelMode::count, VoxelMode::occupancy, VoxelMode::mean, VoxelMode::max});
  const int64_t num_points = std::stoll(words.at(1)), num_features = std::stoll(words.at(2));
  const int64_t voxels = std::stoll(words.at(3));
  const float edge = std::stof(words.at(4)), minimum = std::stof(words.at(5));
  const VoxelGrid grid{{minimum, minimum, minimum}, edge, {voxels, voxels, voxels}};
  const ConstTensor points = folder.tensor("points", DType::f32, {num_points, 3});
  const bool values = options.mode == VoxelMode::mean || options.mode == VoxelMode::max;
  const ConstTensor features =
      values ? folder.tensor("features", DType::f32, {num_points, num_features}) : ConstTensor{};
  const Tensor output = values ? folder.output(DType::f32, {voxels, voxels, voxels, num_features})
                               : folder.output(DType::i32, {voxels, voxels, voxels});
  return [&host, points, features, grid, output, options] {
    host.voxelize_pointcloud(points, features, grid, output, options);
  };
}

void run(const std::vector<std::string>& words) {
  Folder folder(words.at(0));
  Preprocessor host = Preprocessor::on_host();
  const std::vector<std::string> rest(words.begin() + 3, words.end());
  const auto call = words.at(1) == "fuse" ? fuse_call(host, folder, rest) : voxelize_call(host, folder, rest);
  std::vector<double> samples_us;
  for (int i = -2; i < std::stoi(words.at(2)); ++i) {
    const auto start = std::chrono::steady_clock::now();
    call();
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
    if (i >= 0) samples_us.push_back(took.count());
  }
  folder.write_result();
  std::puts(fmt::format("{{\"us\": [{:.3f}]}}", fmt::join(samples_us, ", ")).c_str());
}

}  // namespace
}  // namespace amdahl

int main(int argc, char** argv) {
  if (argc < 5) {
    std::fputs("usage: at the head of sensor_cpu_bench.cpp\n", stderr);
    return 2;
  }
  try {
    amdahl::run({argv + 1, argv + argc});
  } catch (const amdahl::Error& error) {
    std::fputs((error.line() + "\n").c_str(), stderr);
    return exit_code(error.cause());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bad arguments: %s\n", error.what());
    return 2;
  }
  return 0;
}
