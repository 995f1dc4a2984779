// Runs a case of sensor_cases.h on any device and compares the result with the reference.
#pragma once

#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "device/device.h"
#include "sensor/ops/sensor_ops.h"
#include "sensor_cases.h"

namespace amdahl::test {

struct SensorBench {
  Device& device;
  Stream& stream;
  SensorOps& ops;
};

/// Device memory between guard bytes, which detect writes out of bounds; initialised with garbage.
class GuardedMemory {
 public:
  /// `skip_bytes`: offset from the 256-byte alignment of buffers.
  GuardedMemory(const SensorBench& bench, size_t bytes, size_t skip_bytes = 0);
  void* data() { return buffer_->as<uint8_t>() + kGuardBytes + skip_bytes_; }
  template <class T>
  T* as() {
    return static_cast<T*>(data());
  }
  void set(const void* values);
  /// Fills it with garbage again.
  void spoil();
  /// Waits for the stream and copies the content. Fails the test when a guard byte has changed.
  std::vector<uint8_t> get();
  template <class T>
  std::vector<T> get_as() {
    const std::vector<uint8_t> raw = get();
    std::vector<T> values(raw.size() / sizeof(T));
    if (!raw.empty()) std::memcpy(values.data(), raw.data(), values.size() * sizeof(T));
    return values;
  }

 private:
  static constexpr size_t kGuardBytes = 256;
  static constexpr uint8_t kGarbage = 0xA5;
  Device& device_;
  Stream& stream_;
  size_t bytes_, skip_bytes_;
  std::unique_ptr<Buffer> buffer_;
};

/// Allocates guarded memory and fills it from the host.
std::unique_ptr<GuardedMemory> memory_of(const SensorBench& bench, const void* values, size_t bytes,
                                         size_t skip_bytes = 0);

/// Fails the test once, naming the first wrong element. `largest`: the largest finite number of the elements' type.
void expect_elements(const std::vector<double>& got, const std::vector<Expected>& want, double largest);

/// A fuse problem with its memory.
class FuseRun {
 public:
  /// `skip`: offset of data and output from an aligned address, in elements.
  FuseRun(const SensorBench& bench, const FuseCase& fuse_case, DType type, Extrapolation rule, size_t skip = 0);
  void enqueue() { ops_.fuse(stream_, problem_); }
  std::vector<uint8_t> output() { return output_->get(); }
  void spoil_output() { output_->spoil(); }

 private:
  Stream& stream_;
  SensorOps& ops_;
  std::vector<std::unique_ptr<GuardedMemory>> inputs_;
  std::unique_ptr<GuardedMemory> output_;
  FuseProblem problem_;
};

void expect_fused(const FuseCase& fuse_case, DType type, Extrapolation rule, const std::vector<uint8_t>& output);

/// Every defined combination of case, type and rule, at addresses of every alignment.
void for_each_fuse(const std::function<void(const FuseCase&, DType, Extrapolation, size_t skip)>& visit);

/// Checks all cases in one call.
void expect_times_checked(const SensorBench& bench, const std::vector<TimesCase>& cases);

/// A range of points of a cloud with their features, as a problem with its memory.
class CloudPart {
 public:
  /// Points [begin, end) of the cloud; `partial` as in VoxelizeProblem. `features` are those of the whole cloud, [N,
  /// F].
  CloudPart(const SensorBench& bench, const Cloud& cloud, const std::vector<uint8_t>& features, const VoxelRun& run,
            int64_t begin, int64_t end, bool partial);
  void enqueue_scale(int64_t num_points_of_all) {
    ops_.fixed_point_scale(stream_, problem_, num_points_of_all, scale_->as<float>());
  }
  void enqueue() { ops_.voxelize(stream_, problem_); }
  float scale() { return scale_->get_as<float>()[0]; }
  void set_scale(float scale) { scale_->set(&scale); }
  std::vector<uint8_t> output() { return output_->get(); }
  void spoil_output() { output_->spoil(); }
  /// The counts of a mean that requested them; otherwise empty.
  std::vector<int32_t> counts() { return counts_ ? counts_->get_as<int32_t>() : std::vector<int32_t>{}; }
  VoxelizeCounts stats() { return stats_->get_as<VoxelizeCounts>()[0]; }

 private:
  Stream& stream_;
  SensorOps& ops_;
  std::unique_ptr<GuardedMemory> points_, features_, output_, counts_, scale_, stats_, scratch_;
  VoxelizeProblem problem_;
};

/// The whole cloud, with the features of the run.
CloudPart whole_cloud(const SensorBench& bench, const Cloud& cloud, const VoxelRun& run);

struct VoxelResult {
  std::vector<uint8_t> output;
  std::vector<int32_t> counts;  // of a mean, if the run requests them
  VoxelizeCounts stats;
  float scale = 0;  // of a deterministic mean
};

/// Runs it in one part, or in parts that are merged on the host and finished by the device.
VoxelResult run_voxelize(const SensorBench& bench, const Cloud& cloud, const VoxelRun& run);
void expect_voxels(const Cloud& cloud, const VoxelRun& run, const VoxelResult& result);

/// Every combination of cloud and run of the mode. `exact_quotient`: skips runs with fast_quotient on clouds in which
/// an approximate quotient could change a voxel.
void for_each_voxelize(VoxelMode mode, bool exact_quotient,
                       const std::function<void(const Cloud&, const VoxelRun&)>& visit);

/// Shuffled and split clouds give the same bits as the original, for every mode that guarantees it.
void expect_order_does_not_matter(const SensorBench& bench);
/// Tests merge_masks and expand_mask.
void expect_masks_work(const SensorBench& bench);

}  // namespace amdahl::test
