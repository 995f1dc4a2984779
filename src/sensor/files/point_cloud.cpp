// Selects the reader by the name of a point cloud file, and has the reader that is too small for a file of its own.
#include <fmt/format.h>

#include <filesystem>

#include "amdahl/error.h"
#include "files/npy.h"
#include "files/whole_file.h"
#include "sensor/files/bin_cloud.h"
#include "sensor/files/cloud_rows.h"
#include "sensor/files/file_options.h"
#include "sensor/files/ply.h"

namespace amdahl {
namespace {

PointCloud cloud_of_array(const NpyArray& array) {
  if (array.shape.size() != 2 || array.shape[1] < 3)
    throw Error(Cause::data_corrupt,
                fmt::format("{}: its shape is {}, which is no [N, 3 + F]", array.origin, array.shape_text()),
                "one row a point: x, y, z and any features");
  PointCloud cloud;
  cloud.format = "npy";
  require_features(static_cast<size_t>(array.shape[1] - 3), array.origin);
  std::vector<std::string> names;
  for (int64_t i = 3; i < array.shape[1]; ++i) names.push_back(fmt::format("f{}", i - 3));
  CloudRowWriter writer(cloud, std::move(names));
  std::vector<double> row;
  row.reserve(static_cast<size_t>(array.shape[1]));
  for_each_element(array, [&](double value) {
    row.push_back(value);
    if (row.size() < static_cast<size_t>(array.shape[1])) return;
    writer.append(row.data());
    row.clear();
  });
  return cloud;
}

PointCloud parse_npy_cloud(const std::string& bytes, const std::string& path, const SensorFileOptions&) {
  return cloud_of_array(parse_npy(bytes, path));
}
PointCloud parse_ply_cloud(const std::string& bytes, const std::string& path, const SensorFileOptions&) {
  return parse_ply(bytes, path);
}
PointCloud parse_bin(const std::string& bytes, const std::string& path, const SensorFileOptions& options) {
  return parse_bin_cloud(bytes, path, options);
}

struct Format {
  std::string_view ending;
  PointCloud (*parse)(const std::string& bytes, const std::string& path, const SensorFileOptions& options);
};
constexpr Format kFormats[] = {{".bin", parse_bin}, {".npy", parse_npy_cloud}, {".ply", parse_ply_cloud}};

}  // namespace

PointCloud load_point_cloud(const std::string& path, const SensorFileOptions& options) {
  refuse_options_without_effect({path}, options);
  const std::string ending = std::filesystem::path(path).extension();
  for (const Format& format : kFormats)
    if (ending == format.ending) return format.parse(read_file(path, Cause::usage, kMostDataBytes), path, options);
  throw Error(Cause::usage, fmt::format("'{}' has no ending of a point cloud", path),
              ".bin (KITTI, nuScenes), .npy ([N, 3 + F]) or .ply");
}

}  // namespace amdahl
