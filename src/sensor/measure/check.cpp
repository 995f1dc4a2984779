#include "sensor/measure/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <unordered_map>
#include <vector>

#include "sensor/ops/voxel_values.h"

namespace amdahl {
namespace {

constexpr int64_t kChunk = 1 << 16;  // points made at a time

/// Unit of rounding to that type, relative.
double rounding_of(DType type) { return type == DType::f32 ? 0x1p-24 : type == DType::f16 ? 0x1p-11 : 0x1p-8; }

/// NaN where NaN must be, and an infinity of the same sign, or within the tolerance.
bool agrees(double got, double want, double tolerance) {
  if (std::isnan(want)) return std::isnan(got);
  return got == want || std::fabs(got - want) <= tolerance;
}

// ---- streams ----

/// What one value of a stream is at time t, and how far a correctly rounded computation may be from it.
struct Expected {
  double value = 0, tolerance = 0;
};

Expected interpolated(const SensorItems& row, const SensorJob& job, size_t stream, double t, int64_t column) {
  const std::vector<float>& times = row.stream_times[stream];
  const int64_t width = job.streams[stream].width;
  const auto at = [&](size_t s) {
    return double{element_at(row.stream_data[stream].data(), job.type, static_cast<int64_t>(s) * width + column)};
  };
  size_t after = 0;
  while (after < times.size() && times[after] <= t) ++after;
  if (after == 0) return {at(0), 0};
  if (after == times.size()) return {at(after - 1), 0};
  const double a = at(after - 1), b = at(after);
  const double weight = (t - times[after - 1]) / (double{times[after]} - times[after - 1]);
  // Four float operations after the weight's two, then the rounding to the type; f16 is coarser near 0.
  constexpr double kFloatSteps = 6 * 0x1p-24, kLeastHalf = 0x1p-25;
  return {a + weight * (b - a), (rounding_of(job.type) + kFloatSteps) * (std::fabs(a) + std::fabs(b)) + kLeastHalf};
}

CheckResult check_rows(const SensorJob& job, ItemRange items, const void* output) {
  constexpr int64_t kRows = 8;
  CheckResult result;
  const int64_t row_size = job.num_targets * job.fused_width();
  const int64_t step = std::max<int64_t>(1, items.count() / kRows);
  for (int64_t b = 0; b < items.count(); b += step) {
    const SensorItems row = make_items(job, {items.begin + b, items.begin + b + 1});
    int64_t at = b * row_size;
    for (int64_t t = 0; t < job.num_targets; ++t)
      for (size_t s = 0; s < job.streams.size(); ++s)
        for (int64_t column = 0; column < job.streams[s].width; ++column, ++at, ++result.num_checked) {
          const Expected want = interpolated(row, job, s, double{row.targets[static_cast<size_t>(t)]}, column);
          const double got = double{element_at(output, job.type, at)};
          if (agrees(got, want.value, want.tolerance)) continue;
          result.fault = fmt::format("row {}, target {}, stream {}, column {} is {:.9g} and must be {:.9g}",
                                     items.begin + b, t, s, column, got, want.value);
          return result;
        }
  }
  return result;
}

// ---- voxels ----

/// What lies in one voxel, by feature where there are some.
struct VoxelSum {
  int32_t count = 0;
  std::vector<double> sum, magnitude;
  std::vector<int64_t> fixed;
  std::vector<float> most;
};

class CloudReference {
 public:
  CloudReference(const SensorJob& job, ItemRange items) : job_(job), items_(items) {
    choose_voxels();
    if (fixed_point()) find_scale();
    for_each_chunk([this](const SensorItems& made, int64_t count) { add(made, count); });
  }

  CheckResult compare(const void* output) const {
    CheckResult result;
    for (const auto& [voxel, sum] : sums_) {
      const int64_t per_voxel = with_features() ? job_.num_features : 1;
      for (int64_t f = 0; f < per_voxel && result.fault.empty(); ++f, ++result.num_checked)
        result.fault = with_features() ? value_fault(output, voxel, f, sum) : whole_fault(output, voxel, sum);
      if (!result.fault.empty()) break;
    }
    return result;
  }

 private:
  bool with_features() const { return has_values(job_.options.mode); }
  bool fixed_point() const { return job_.options.mode == VoxelMode::mean && job_.options.deterministic; }

  template <class Work>
  void for_each_chunk(const Work& work) {
    for (int64_t begin = items_.begin; begin < items_.end; begin += kChunk) {
      const int64_t end = std::min(items_.end, begin + kChunk);
      work(make_items(job_, {begin, end}), end - begin);
    }
  }

  /// Memory position of the voxel a point lies in, -1 outside the grid.
  int64_t voxel_of(const float* point) const {
    std::array<int64_t, 3> cell{};
    for (size_t axis = 0; axis < 3; ++axis) {
      const float at = std::floor((point[axis] - job_.grid.minimum[axis]) / job_.grid.voxel_size);
      if (!(at >= 0 && at < static_cast<float>(job_.grid.size[axis]))) return -1;
      cell[axis] = static_cast<int64_t>(at);
    }
    const auto& size = job_.grid.size;
    return job_.options.layout == VoxelLayout::xyz ? (cell[0] * size[1] + cell[1]) * size[2] + cell[2]
                                                   : (cell[2] * size[1] + cell[1]) * size[0] + cell[0];
  }

  /// Voxels all over the grid, most of them empty in a sparse cloud, and those of points all over the cloud.
  void choose_voxels() {
    constexpr int64_t kEach = 8192;
    const int64_t voxels = num_voxels(job_.grid);
    const int64_t voxel_step = std::max<int64_t>(1, voxels / kEach);
    for (int64_t voxel = voxel_step / 2; voxel < voxels; voxel += voxel_step) sums_[voxel];
    SensorJob points = job_;
    points.num_features = 0;
    const int64_t point_step = std::max<int64_t>(1, items_.count() / kEach);
    for (int64_t i = items_.begin; i < items_.end; i += point_step) {
      const int64_t voxel = voxel_of(make_items(points, {i, i + 1}).points.data());
      if (voxel >= 0) sums_[voxel];
    }
    for (auto& [voxel, sum] : sums_) {
      const auto width = static_cast<size_t>(with_features() ? job_.num_features : 0);
      sum.sum.resize(width), sum.magnitude.resize(width), sum.fixed.resize(width);
      sum.most.assign(width, -std::numeric_limits<float>::infinity());
    }
  }

  void find_scale() {
    float largest = 0;
    for_each_chunk([&](const SensorItems& made, int64_t count) {
      for (int64_t i = 0; i < count * job_.num_features; ++i)
        if (const float size = std::fabs(element_at(made.features.data(), job_.type, i)); std::isfinite(size))
          largest = std::max(largest, size);
    });
    scale_ = double{fixed_point_scale_of(largest, items_.count())};
  }

  void add(const SensorItems& made, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      const auto found = sums_.find(voxel_of(made.points.data() + i * 3));
      if (found == sums_.end()) continue;
      VoxelSum& voxel = found->second;
      ++voxel.count;
      for (size_t f = 0; f < voxel.sum.size(); ++f) {
        const float value =
            element_at(made.features.data(), job_.type, i * job_.num_features + static_cast<int64_t>(f));
        voxel.sum[f] += double{value};
        voxel.magnitude[f] += std::fabs(double{value});
        if (fixed_point() && std::isfinite(value)) voxel.fixed[f] += std::llrint(double{value} * scale_);
        voxel.most[f] = std::max(voxel.most[f], value);
      }
    }
  }

  std::string whole_fault(const void* output, int64_t voxel, const VoxelSum& sum) const {
    const auto* words = static_cast<const uint32_t*>(output);
    const bool masked = job_.options.mode == VoxelMode::bitmask;
    const int64_t got = masked ? (words[voxel / 32] >> (voxel % 32)) & 1u : words[voxel];
    const int64_t want = job_.options.mode == VoxelMode::count ? sum.count : sum.count > 0;
    return got == want ? "" : fmt::format("voxel {} is {} and must be {}", voxel, got, want);
  }

  std::string value_fault(const void* output, int64_t voxel, int64_t feature, const VoxelSum& sum) const {
    const auto f = static_cast<size_t>(feature);
    const float got = element_at(output, DType::f32, voxel * job_.num_features + feature);
    double want = 0, tolerance = 0;
    if (sum.count > 0 && job_.options.mode == VoxelMode::max) {
      want = std::isinf(sum.most[f]) && sum.most[f] < 0 ? 0 : double{sum.most[f]};  // nothing but NaN and -infinity
    } else if (fixed_point() && sum.count > 0) {
      want = double{fixed_point_mean(sum.fixed[f], sum.count, scale_)};
    } else if (sum.count > 0) {
      want = sum.sum[f] / sum.count;
      // Any order of additions in float: at most one rounding of a partial sum for each value.
      tolerance = 0x1p-23 * sum.magnitude[f] + 0x1p-23 * std::fabs(want);
    }
    if (agrees(double{got}, want, tolerance)) return {};
    return fmt::format("voxel {}, feature {} is {:.9g} and must be {:.9g}", voxel, feature, got, want);
  }

  const SensorJob& job_;
  ItemRange items_;
  double scale_ = 1;
  std::unordered_map<int64_t, VoxelSum> sums_;  // by memory position
};

}  // namespace

CheckResult check_output(const SensorJob& job, ItemRange items, const void* output) {
  return job.voxelizes() ? CloudReference(job, items).compare(output) : check_rows(job, items, output);
}

}  // namespace amdahl
