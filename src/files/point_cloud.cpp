// Selects the reader by the name of a point cloud file, and has the two readers that are too small for files of their
// own.
#include <fmt/format.h>

#include <filesystem>

#include "amdahl/units.h"
#include "files/cloud_rows.h"
#include "files/npy.h"
#include "files/ply.h"
#include "files/whole_file.h"

namespace amdahl {
namespace {

// A KITTI scan has no header: only its size can be checked.
PointCloud parse_kitti(const std::string& path, const std::string& bytes) {
  constexpr size_t kColumns = 4, kRowBytes = kColumns * sizeof(float);
  if (bytes.empty())
    throw Error(Cause::data_corrupt, fmt::format("{}: the file is empty", path), "a scan of at least one point");
  if (bytes.size() % kRowBytes != 0)
    throw Error(
        Cause::data_corrupt,
        fmt::format("{}: {} bytes are not a multiple of {}: it is cut off in point {}, which begins at byte {}", path,
                    bytes.size(), kRowBytes, bytes.size() / kRowBytes, bytes.size() / kRowBytes * kRowBytes),
        "x, y, z and intensity as float, point after point; other widths as .npy of [N, 3 + F]");
  PointCloud cloud;
  cloud.format = "KITTI";
  set_features(cloud, {"intensity"});
  const ReadScalar read = find_scalar(ScalarKind::floating, sizeof(float), false);
  const size_t count = bytes.size() / kRowBytes;
  cloud.points.reserve(count * 3);
  cloud.features.reserve(count);
  double row[kColumns];
  for (size_t at = 0; at < bytes.size(); at += kRowBytes) {
    for (size_t i = 0; i < kColumns; ++i) row[i] = read(bytes.data() + at + i * sizeof(float));
    append_point(cloud, row);
  }
  return cloud;
}

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
  set_features(cloud, std::move(names));
  std::vector<double> row;
  row.reserve(static_cast<size_t>(array.shape[1]));
  for_each_element(array, [&](double value) {
    row.push_back(value);
    if (row.size() < static_cast<size_t>(array.shape[1])) return;
    append_point(cloud, row.data());
    row.clear();
  });
  return cloud;
}

PointCloud load_kitti(const std::string& path) {
  return parse_kitti(path, read_file(path, Cause::usage, kMostDataBytes));
}
PointCloud load_npy_cloud(const std::string& path) {
  return cloud_of_array(parse_npy(read_file(path, Cause::usage, kMostDataBytes), path));
}
PointCloud load_ply(const std::string& path) { return parse_ply(read_file(path, Cause::usage, kMostDataBytes), path); }

struct Format {
  std::string_view ending;
  PointCloud (*load)(const std::string& path);
};
constexpr Format kFormats[] = {{".bin", load_kitti}, {".npy", load_npy_cloud}, {".ply", load_ply}};

}  // namespace

PointCloud load_point_cloud(const std::string& path) {
  const std::string ending = std::filesystem::path(path).extension();
  for (const Format& format : kFormats)
    if (ending == format.ending) return format.load(path);
  throw Error(Cause::usage, fmt::format("'{}' has no ending of a point cloud", path),
              ".bin (KITTI), .npy ([N, 3 + F]) or .ply");
}

}  // namespace amdahl
