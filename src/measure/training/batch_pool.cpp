#include "measure/training/batch_pool.h"

#include <algorithm>

namespace amdahl {

int64_t pool_batches(int64_t data_rows, int64_t global_batch, int max_batches) {
  return std::clamp<int64_t>(data_rows / global_batch, 1, max_batches);
}

BatchPool::BatchPool(Trainer& trainer, Device& device, const Dataset& data, int64_t global_batch, int max_batches,
                     Deadline deadline)
    : num_batches_(static_cast<size_t>(pool_batches(data.num_rows, global_batch, max_batches))) {
  const RowRange mine = trainer.rows_to_provide();
  if (mine.rows() == 0) return;
  const int64_t target_floats = data.target_floats();
  feature_floats_ = mine.rows() * data.input_width;
  target_floats_ = mine.rows() * target_floats;
  std::vector<float> features, targets;
  features.reserve(num_batches_ * static_cast<size_t>(feature_floats_));
  targets.reserve(num_batches_ * static_cast<size_t>(target_floats_));
  for (size_t batch = 0; batch < num_batches_; ++batch) {
    for (int64_t row = mine.begin; row < mine.end; ++row) {
      const int64_t source = (static_cast<int64_t>(batch) * global_batch + row) % data.num_rows;
      const auto feature = data.features.begin() + source * data.input_width;
      const auto target = data.targets.begin() + source * target_floats;
      features.insert(features.end(), feature, feature + data.input_width);
      targets.insert(targets.end(), target, target + target_floats);
    }
  }
  features_ = device.allocate(features.size() * sizeof(float));
  targets_ = device.allocate(targets.size() * sizeof(float));
  Stream& stream = trainer.compute_stream();
  device.copy_in(stream, features_->data(), features.data(), features_->bytes());
  device.copy_in(stream, targets_->data(), targets.data(), targets_->bytes());
  stream.synchronize(deadline);
}

const float* BatchPool::features(size_t batch) const {
  return features_ ? features_->as<float>() + static_cast<int64_t>(batch) * feature_floats_ : nullptr;
}

const float* BatchPool::targets(size_t batch) const {
  return targets_ ? targets_->as<float>() + static_cast<int64_t>(batch) * target_floats_ : nullptr;
}

}  // namespace amdahl
