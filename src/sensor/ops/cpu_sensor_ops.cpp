// Sensor operations of CPU virtual devices: loops on the stream's worker thread.
#include <algorithm>
#include <cmath>

#include "device/cpu_stream.h"
#include "sensor/ops/cpu_kernels.h"
#include "sensor/ops/voxel_values.h"

namespace amdahl {
namespace {

bool has_avx2() {
  static const bool has = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return has;
}
const CpuFuseKernels& fuse_kernels() { return has_avx2() ? kCpuFuseAvx2 : kCpuFuseBaseline; }
const CpuVoxelKernels& voxel_kernels() { return has_avx2() ? kCpuVoxelsAvx2 : kCpuVoxelsBaseline; }

TimesFault first_bad_time(const TimesRows& rows) {
  const float* row = rows.times;
  for (int64_t b = 0; b < rows.batch; ++b, row += rows.length)
    for (int64_t s = 0; s < rows.length; ++s) {
      const auto place = static_cast<uint64_t>(b * rows.length + s) * 2;
      if (!std::isfinite(row[s])) return {place};
      if (s > 0 && row[s] < row[s - 1]) return {place + 1};
    }
  return {};
}

/// Writes counts as bytes and an overflow list: see VoxelizeProblem::most_in_byte.
void write_bytes(const VoxelizeProblem& problem, const int32_t* counts) {
  // The same call may have been executed before.
  std::fill_n(problem.overflow, int64_t{problem.overflow->voxel} + 1, OverflowCount{});
  constexpr int64_t kBlock = 256;
  auto* bytes = static_cast<uint8_t*>(problem.output);
  const int32_t most = problem.most_in_byte;
  for (int64_t begin = 0; begin < num_voxels(problem.grid); begin += kBlock) {
    const int64_t end = std::min(begin + kBlock, num_voxels(problem.grid));
    int32_t largest = 0;
    for (int64_t i = begin; i < end; ++i) {
      largest = std::max(largest, counts[i]);
      bytes[i] = static_cast<uint8_t>(std::min(counts[i], most));
    }
    for (int64_t i = begin; largest > most && i < end; ++i)
      if (counts[i] > most) problem.overflow[++problem.overflow->voxel] = {static_cast<uint32_t>(i), counts[i] - most};
  }
}

class CpuSensorOps final : public SensorOps {
 public:
  void fuse(Stream& stream, const FuseProblem& problem) override {
    as_cpu(stream).enqueue([problem] { fuse_kernels().fuse(problem); });
  }

  void check_times(Stream& stream, const std::vector<TimesRows>& rows, TimesFault* faults) override {
    as_cpu(stream).enqueue([=] { std::transform(rows.begin(), rows.end(), faults, first_bad_time); });
  }

  size_t voxelize_scratch_bytes(const VoxelizeProblem& problem) const override {
    if (problem.most_in_byte > 0) return static_cast<size_t>(num_voxels(problem.grid)) * sizeof(int32_t);
    return value_scratch_bytes(problem);
  }
  void voxelize(Stream& stream, const VoxelizeProblem& problem) override {
    as_cpu(stream).enqueue([problem] {
      if (problem.most_in_byte == 0) return voxel_kernels().voxelize(problem);
      VoxelizeProblem whole = problem;
      whole.output = problem.scratch;
      voxel_kernels().voxelize(whole);
      write_bytes(problem, static_cast<const int32_t*>(whole.output));
    });
  }

  void fixed_point_scale(Stream& stream, const VoxelizeProblem& problem, int64_t num_points_of_all,
                         float* scale) override {
    as_cpu(stream).enqueue(
        [=] { *scale = fixed_point_scale_of(voxel_kernels().largest_feature(problem), num_points_of_all); });
  }
  void finish(Stream& stream, const VoxelizeProblem& merged) override {
    as_cpu(stream).enqueue([merged] { voxel_kernels().finish(merged); });
  }

  void add_byte_counts(Stream& stream, const ByteCounts& layout, void* buffer, int32_t* grid) override {
    as_cpu(stream).enqueue([=] {
      const auto* bytes = static_cast<const uint8_t*>(buffer);
      std::copy_n(bytes, layout.num_voxels, grid);
      for (int rank = 0; rank < layout.world_size; ++rank) {
        OverflowCount* list = layout.list(buffer, rank);
        const int64_t length = list->voxel;
        for (int64_t i = 1; i <= length; ++i) grid[list[i].voxel] += list[i].count;
        std::fill_n(list, length + 1, OverflowCount{});
      }
    });
  }

  void merge_masks(Stream& stream, uint32_t* mask, const uint32_t* other, int64_t num_words) override {
    as_cpu(stream).enqueue([=] {
      for (int64_t i = 0; i < num_words; ++i) mask[i] |= other[i];
    });
  }
  void expand_mask(Stream& stream, const uint32_t* mask, int32_t* grid, int64_t voxels) override {
    as_cpu(stream).enqueue([=] {
      for (int64_t i = 0; i < voxels; ++i) grid[i] = static_cast<int32_t>((mask[i / 32] >> (i % 32)) & 1u);
    });
  }
};

}  // namespace

std::unique_ptr<SensorOps> make_cpu_sensor_ops(Device& device) {
  if (device.backend() != BackendKind::cpu)
    throw Error(Cause::internal, "a device of another backend was handed to CPU code");
  return std::make_unique<CpuSensorOps>();
}

}  // namespace amdahl
