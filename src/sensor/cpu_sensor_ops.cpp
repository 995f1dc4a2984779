// Sensor operations of CPU virtual devices: loops on the stream's worker.
#include <algorithm>
#include <cmath>

#include "device/cpu_stream.h"
#include "sensor/cpu_kernels.h"
#include "sensor/voxel_values.h"

namespace amdahl {
namespace {

const CpuSensorKernels& kernels() {
  static const CpuSensorKernels& chosen =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? kCpuSensorAvx2 : kCpuSensorBaseline;
  return chosen;
}

TimesFault first_bad_time(const float* times, int64_t batch, int64_t length) {
  for (int64_t i = 0; i < batch * length; ++i) {
    if (!std::isfinite(times[i])) return {i, true};
    if (i % length > 0 && times[i] < times[i - 1]) return {i, false};
  }
  return {};
}

class CpuSensorOps final : public SensorOps {
 public:
  void fuse(Stream& stream, const FuseProblem& problem) override {
    as_cpu(stream).enqueue([problem] { kernels().fuse(problem); });
  }

  void check_times(Stream& stream, const float* times, int64_t batch, int64_t length, TimesFault* fault) override {
    as_cpu(stream).enqueue([=] { *fault = first_bad_time(times, batch, length); });
  }

  size_t voxelize_scratch_bytes(const VoxelizeProblem& problem) const override { return mean_scratch_bytes(problem); }
  void voxelize(Stream& stream, const VoxelizeProblem& problem) override {
    as_cpu(stream).enqueue([problem] { kernels().voxelize(problem); });
  }

  void fixed_point_scale(Stream& stream, const VoxelizeProblem& problem, int64_t num_points_of_all,
                         float* scale) override {
    as_cpu(stream).enqueue(
        [=] { *scale = fixed_point_scale_of(kernels().largest_feature(problem), num_points_of_all); });
  }
  void finish(Stream& stream, const VoxelizeProblem& merged) override {
    as_cpu(stream).enqueue([merged] { kernels().finish(merged); });
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
