// Batches that a second stream copies from host memory into two places of the device while a step runs.
#pragma once

#include <array>
#include <memory>

#include "device/device.h"

namespace amdahl {

/// Device pointers of one step's batch, this rank's rows; null on ranks that get theirs from rank 0.
struct StepBatch {
  const float* features = nullptr;
  const float* targets = nullptr;
};

/// Two places on the device. A place is filled after the step that read it last, while the step that reads the other
/// one runs. Not thread-safe.
class Prefetcher {
 public:
  static constexpr size_t kPlaces = 2;
  /// `feature_floats`, `target_floats`: of one batch. All references outlive it.
  Prefetcher(Device& device, Stream& compute, int64_t feature_floats, int64_t target_floats);

  StepBatch place(size_t index) const;
  /// Enqueues the copy of a batch in memory of Device::allocate_host, which stays as it is until the copy is done.
  void fill(size_t index, const float* features, const float* targets);
  /// Later work of the compute stream starts after the copy.
  void begin(size_t index) { compute_.wait(*places_[index].filled); }
  /// The work of the compute stream until here reads the place.
  void end(size_t index) { compute_.record(*places_[index].read); }
  /// Blocks until every copy is done.
  void synchronize(Deadline deadline) { stream_->synchronize(deadline); }

 private:
  struct Place {
    std::unique_ptr<Buffer> features, targets;
    std::unique_ptr<Event> filled, read;
  };
  Device& device_;
  Stream& compute_;
  size_t feature_bytes_, target_bytes_;
  std::array<Place, kPlaces> places_;
  std::unique_ptr<Stream> stream_;  // ends before its memory does
};

}  // namespace amdahl
