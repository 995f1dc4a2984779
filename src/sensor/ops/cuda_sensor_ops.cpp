// Sensor operations of CUDA devices.
#include "device/cuda_check.h"
#include "device/cuda_device.h"
#include "device/profiler_ranges.h"
#include "sensor/ops/cuda_kernels.h"
#include "sensor/ops/peers/cuda_peers.h"

namespace amdahl {
namespace {

class CudaSensorOps final : public SensorOps {
 public:
  CudaSensorOps(Device& device, const ChipLimits& limits) : device_(device), limits_(limits) {}

  void fuse(Stream& stream, const FuseProblem& problem) override {
    const ProfilerRange range("sensor fuse", problem.batch);
    if (problem.batch > 0 && problem.num_targets > 0) launch_fuse(on(stream), problem);
  }
  void check_times(Stream& stream, const std::vector<TimesRows>& rows, TimesFault* faults) override {
    launch_check_times(on(stream), rows, faults);
  }

  size_t voxelize_scratch_bytes(const VoxelizeProblem& problem) const override {
    return cuda_voxelize_scratch_bytes(launch_with(nullptr), problem);
  }
  void voxelize(Stream& stream, const VoxelizeProblem& problem) override {
    const ProfilerRange range("sensor voxelize", problem.num_points);
    launch_voxelize(on(stream), problem);
  }

  void fixed_point_scale(Stream& stream, const VoxelizeProblem& problem, int64_t num_points_of_all,
                         float* scale) override {
    launch_fixed_point_scale(on(stream), problem, num_points_of_all, scale);
  }
  void finish(Stream& stream, const VoxelizeProblem& merged) override { launch_finish(on(stream), merged); }

  void add_byte_counts(Stream& stream, const ByteCounts& layout, void* buffer, int32_t* grid) override {
    const ProfilerRange range("sensor merge", layout.num_voxels);
    if (layout.num_voxels > 0) launch_add_byte_counts(on(stream), layout, buffer, grid);
  }
  void merge_masks(Stream& stream, uint32_t* mask, const uint32_t* other, int64_t num_words) override {
    const ProfilerRange range("sensor merge", num_words);
    if (num_words > 0) launch_merge_masks(on(stream), mask, other, num_words);
  }
  void expand_mask(Stream& stream, const uint32_t* mask, int32_t* grid, int64_t voxels) override {
    if (voxels > 0) launch_expand_mask(on(stream), mask, grid, voxels);
  }

  size_t mask_peer_bytes(int64_t voxels, int world_size) const override {
    return cuda_mask_peer_bytes(voxels, world_size);
  }
  std::unique_ptr<MaskPeers> join_masks(const SymmetricMemory& memory, int64_t voxels) override {
    return make_cuda_mask_peers(device_, limits_, memory, voxels);
  }
  bool divides_counts(int64_t voxels) const override { return cuda_divides_counts(limits_, voxels); }
  size_t count_peer_bytes(const ByteCounts& layout) const override {
    return layout.divided ? cuda_division_bytes(layout) : cuda_count_peer_bytes(layout);
  }
  std::unique_ptr<CountPeers> join_counts(const SymmetricMemory& memory, const ByteCounts& layout) override {
    if (layout.divided) return make_cuda_count_division(device_, limits_, memory, layout);
    return make_cuda_count_peers(device_, limits_, memory, layout);
  }

 private:
  SensorLaunch on(Stream& stream) const {
    device_.bind_thread();
    return launch_with(as_cuda(stream));
  }
  SensorLaunch launch_with(cudaStream_t stream) const {
    return {stream, device_.spec().index, device_.spec().sm_count, limits_};
  }

  Device& device_;
  ChipLimits limits_;
};

}  // namespace

std::unique_ptr<SensorOps> make_cuda_sensor_ops(Device& device) {
  if (device.backend() != BackendKind::cuda)
    throw Error(Cause::internal, "a device of another backend was handed to CUDA code");
  const int index = device.spec().index;
  ChipLimits limits;
  limits.most_shared = static_cast<size_t>(cuda_attribute(index, cudaDevAttrMaxSharedMemoryPerBlockOptin));
  limits.early = cuda_attribute(index, cudaDevAttrComputeCapabilityMajor) >= 9;
  return make_cuda_sensor_ops(device, limits);
}

std::unique_ptr<SensorOps> make_cuda_sensor_ops(Device& device, const ChipLimits& limits) {
  return std::make_unique<CudaSensorOps>(device, limits);
}

}  // namespace amdahl
