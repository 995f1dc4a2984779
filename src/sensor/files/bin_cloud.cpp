#include "sensor/files/bin_cloud.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <vector>

#include "files/scalars.h"
#include "sensor/files/cloud_rows.h"

namespace amdahl {
namespace {

constexpr int64_t kUsualColumns = 4;

struct NamedLayout {
  std::string_view ending;
  int64_t columns;  // 0: no cloud
  const char* format;
};
constexpr NamedLayout kNames[] = {
    {".pcd.bin", 5, "nuScenes"},
    {"_lidarseg.bin", 0, "the labels of nuScenes-lidarseg, a byte for each point"},
};

struct Layout {
  int64_t columns = kUsualColumns;
  size_t width = sizeof(float);
  std::string format = "KITTI";
  bool guessed = true;

  size_t row_bytes() const { return static_cast<size_t>(columns) * width; }
};

[[noreturn]] void refuse(const std::string& path, const std::string& what, const std::string& remedy) {
  throw Error(Cause::data_corrupt, fmt::format("{}: {}", path, what), remedy);
}

Layout choose_layout(const std::string& path, const SensorFileOptions& options) {
  constexpr int64_t kFewest = 3, kMost = 1000;
  Layout layout;
  for (const NamedLayout& named : kNames) {
    if (!path.ends_with(named.ending)) continue;
    if (named.columns == 0)
      refuse(path, fmt::format("by its name it holds {}", named.format), "the file of the points");
    layout.columns = named.columns;
    layout.format = named.format;
  }
  if (options.bin_columns != 0 && (options.bin_columns < kFewest || options.bin_columns > kMost))
    throw Error(Cause::usage, fmt::format("`bin_columns` is {}", options.bin_columns),
                fmt::format("{} to {}: x, y, z and features", kFewest, kMost));
  if (!options.bin_type.empty() && options.bin_type != "f32" && options.bin_type != "f64")
    throw Error(Cause::usage,
                fmt::format("`bin_type` is {}, and the numbers of a cloud are f32 or f64", options.bin_type),
                "f32 or f64");
  if (options.bin_type == "f64") layout.width = sizeof(double);
  const bool other = layout.width != sizeof(float) || options.bin_columns != 0;
  layout.guessed = options.bin_columns == 0;
  if (options.bin_columns != 0) layout.columns = options.bin_columns;
  if (other && (layout.columns != kUsualColumns || layout.width != sizeof(float))) layout.format = "bin";
  return layout;
}

/// Layouts whose rows the size is a multiple of.
std::string fitting_layouts(size_t bytes) {
  std::vector<std::string> fitting;
  for (const int64_t columns : {5, 3, 6, 7, 8})
    if (bytes % (static_cast<size_t>(columns) * sizeof(float)) == 0)
      fitting.push_back(fmt::format("`bin_columns={}`", columns));
  if (bytes % (3 * sizeof(double)) == 0) fitting.push_back("`bin_columns=3` with `bin_type=f64`");
  return fmt::format("{}", fmt::join(fitting, " or "));
}

void check_size(const std::string& path, size_t bytes, const Layout& layout) {
  const size_t row = layout.row_bytes();
  if (bytes == 0) refuse(path, "the file is empty", "a scan of at least one point");
  if (bytes % row == 0) return;
  const std::string fitting = fitting_layouts(bytes);
  refuse(
      path,
      fmt::format("{} bytes are not a multiple of {}, a row of {} {}: it is cut off in point {}, which begins at byte "
                  "{}, or has other rows",
                  bytes, row, layout.columns, layout.width == sizeof(float) ? "floats" : "doubles", bytes / row,
                  bytes / row * row),
      fitting.empty() ? "the whole file, or `bin_columns` with the numbers of a point" : fitting);
}

std::vector<std::string> feature_names(const std::string& format, int64_t columns) {
  const bool known = format == "KITTI" || format == "nuScenes";
  std::vector<std::string> names;
  for (int64_t i = 3; i < columns; ++i)
    names.push_back(!known ? fmt::format("f{}", i - 3) : i == 3 ? "intensity" : "ring");
  return names;
}

}  // namespace

PointCloud parse_bin_cloud(std::string_view bytes, const std::string& path, const SensorFileOptions& options) {
  const Layout layout = choose_layout(path, options);
  check_size(path, bytes.size(), layout);
  PointCloud cloud;
  cloud.format = layout.format;
  if (layout.guessed && layout.width == sizeof(float)) {
    if (const LayoutDoubt doubt = doubt_layout(bytes, layout.columns); !doubt.what.empty())
      refuse(path, doubt.what, doubt.remedy);
    constexpr size_t kFew = 320, kFive = 5 * sizeof(float);
    if (layout.columns == kUsualColumns && bytes.size() < kFew && bytes.size() % kFive == 0)
      cloud.warnings.push_back(
          fmt::format("{}: {} bytes are read as {} points of 4 floats, and may be {} of 5: too few to tell "
                      "(`bin_columns` decides)",
                      path, bytes.size(), bytes.size() / layout.row_bytes(), bytes.size() / kFive));
  }
  const ReadScalar read = find_scalar(ScalarKind::floating, layout.width, false);
  const size_t count = bytes.size() / layout.row_bytes();
  CloudRowWriter writer(cloud, feature_names(layout.format, layout.columns));
  cloud.points.reserve(count * 3);
  cloud.features.reserve(count * static_cast<size_t>(cloud.num_features));
  std::vector<double> row(static_cast<size_t>(layout.columns));
  for (size_t at = 0; at < bytes.size(); at += layout.row_bytes()) {
    for (size_t i = 0; i < row.size(); ++i) row[i] = read(bytes.data() + at + i * layout.width);
    writer.append(row.data());
  }
  return cloud;
}

}  // namespace amdahl
