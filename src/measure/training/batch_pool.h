// A few batches of a data set that timed steps cycle through: resident on a rank's device, or copied to it from host
// memory while the step before runs.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "measure/training/prefetch.h"
#include "train/dataset.h"
#include "train/trainer.h"

namespace amdahl {

class BatchPool {
 public:
  /// Holds up to `max_batches` distinct batches of the plan's global size: this rank's rows of each. Batch k has data
  /// rows [k * global_batch, ...) modulo the data set. Blocks until they are where the input mode wants them.
  BatchPool(Trainer& trainer, Device& device, const Dataset& data, const ParallelPlan& plan, int max_batches,
            Deadline deadline);

  size_t size() const { return num_batches_; }
  bool prefetches() const { return prefetcher_.has_value(); }

  /// The batch of the step that is enqueued next. `done` must follow once that step is enqueued: batches that are
  /// prefetched lie in one of two places, of which the other is then filled with the batch after this one.
  StepBatch take(size_t batch);
  void done();

  /// Batches that lie on the device without any copy: all of them, or what the places hold. For steps without input.
  /// Later work of the compute stream may read every place.
  void wait_for_places();
  size_t num_places() const { return prefetcher_ ? Prefetcher::kPlaces : num_batches_; }
  StepBatch place(size_t index) const;

 private:
  static constexpr size_t kNone = SIZE_MAX;
  void fill(size_t place, size_t batch);

  size_t num_batches_ = 0;
  int64_t feature_floats_ = 0, target_floats_ = 0;     // per batch
  std::unique_ptr<Buffer> features_, targets_;         // all batches; null on ranks that receive their rows each step
  std::optional<Prefetcher> prefetcher_;               // features_ and targets_ are then memory of the host
  size_t held_[Prefetcher::kPlaces] = {kNone, kNone};  // batch in a place that no step has read yet
  size_t place_ = 0, taken_ = 0;                       // of the last take
};

/// Number of batches that the pool holds for this data set.
int64_t pool_batches(int64_t data_rows, int64_t global_batch, int max_batches);

}  // namespace amdahl
