// A few batches of a data set, resident on a rank's device, that timed steps cycle through.
#pragma once

#include <memory>
#include <vector>

#include "train/dataset.h"
#include "train/trainer.h"

namespace amdahl {

class BatchPool {
 public:
  /// Uploads up to `max_batches` distinct batches of the plan's global size: this rank's rows of each. Batch k holds
  /// data rows [k * global_batch, ...) modulo the data set. Blocks until the device holds them.
  BatchPool(Trainer& trainer, Device& device, const Dataset& data, int64_t global_batch, int max_batches,
            Deadline deadline);

  size_t size() const { return num_batches_; }
  const float* features(size_t batch) const;
  const float* targets(size_t batch) const;

 private:
  size_t num_batches_ = 0;
  int64_t feature_floats_ = 0, target_floats_ = 0;  // per batch
  std::unique_ptr<Buffer> features_, targets_;      // null on ranks that receive their rows each step
};

/// Number of batches that the pool holds for this data set.
int64_t pool_batches(int64_t data_rows, int64_t global_batch, int max_batches);

}  // namespace amdahl
