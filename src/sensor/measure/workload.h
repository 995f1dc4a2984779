// One device's part of a sensor job: its inputs and outputs in device memory, several copies of them where calls are to
// find nothing in the cache, and the calls.
#pragma once

#include <memory>
#include <vector>

#include "sensor/measure/data.h"
#include "sensor/ops/merge.h"
#include "sensor/ops/sensor_ops.h"

namespace amdahl {

/// Makes the sensor operations of a device; the composition root knows the backends.
using MakeSensorOps = std::unique_ptr<SensorOps> (*)(Device& device);

/// Who works: one rank's device, operations and communicator.
struct SensorRank {
  Device& device;
  SensorOps& ops;
  Communicator& communicator;
};

class SensorWorkload {
 public:
  /// Makes the items and copies them to the device, and returns when they are there. With `way` other than none, what
  /// all ranks voxelize becomes one grid. Error{out_of_memory}.
  SensorWorkload(const SensorRank& rank, const SensorJob& job, ItemRange items, MergeMethod method, int num_variants,
                 Stream& stream, Deadline deadline);

  /// Device memory of one variant: inputs and output.
  static size_t variant_bytes(const SensorJob& job, int64_t num_items);
  /// Of those, the output.
  static size_t output_bytes(const SensorJob& job);
  /// Device memory beside the variants.
  static size_t shared_bytes(const SensorRank& rank, const SensorJob& job, MergeMethod method);
  /// Copies with which two calls on the same memory have more than twice the last-level cache between them; at most
  /// kMostCopies, which is not enough where a copy is tiny.
  static int cold_variants(const Device& device, const SensorJob& job, int64_t num_items);
  /// Whether copies of that size together are so many.
  static bool leaves_cache(const Device& device, double copied_bytes);
  static constexpr size_t kMostCopies = 32768;  // each is a part of captured graphs

  int num_variants() const { return num_variants_; }
  /// A variant's call as the operations take it; the other of the two is empty.
  const FuseProblem& fusion(int variant) const { return variants_[static_cast<size_t>(variant)].fuse; }
  const VoxelizeProblem& cloud(int variant) const { return variants_[static_cast<size_t>(variant)].voxelize; }
  /// This rank's part of a call.
  void compute(Stream& stream, int variant);
  /// What makes one grid of all parts; nothing without a merge.
  void merge(Stream& stream, int variant);
  void call(Stream& stream, int variant) {
    compute(stream, variant);
    merge(stream, variant);
  }

  /// The output of a variant, read back.
  std::vector<char> output(Stream& stream, int variant, Deadline deadline);

 private:
  struct Variant {
    FuseProblem fuse;
    VoxelizeProblem voxelize;
  };
  void lay_out(int variant);
  void fill(const SensorItems& made, Stream& stream, Deadline deadline);

  SensorRank rank_;
  SensorJob job_;
  int64_t num_items_;
  int num_variants_;
  std::unique_ptr<Buffer> memory_;
  std::vector<Variant> variants_;
  std::unique_ptr<GridMerge> merge_;  // of clouds
};

/// Of a job's throughput.
const char* throughput_unit(const SensorJob& job);
/// Bytes that one call reads and writes if each byte is touched once: the inputs of all items, and `num_outputs`
/// grids or, of streams, every output row once.
double useful_bytes(const SensorJob& job, int num_outputs);

}  // namespace amdahl
