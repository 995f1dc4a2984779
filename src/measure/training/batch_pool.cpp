#include "measure/training/batch_pool.h"

#include <algorithm>
#include <cstring>

namespace amdahl {

int64_t pool_batches(int64_t data_rows, int64_t global_batch, int max_batches) {
  return std::clamp<int64_t>(data_rows / global_batch, 1, max_batches);
}

BatchPool::BatchPool(Trainer& trainer, Device& device, const Dataset& data, const ParallelPlan& plan, int max_batches,
                     Deadline deadline)
    : num_batches_(static_cast<size_t>(pool_batches(data.num_rows, plan.global_batch, max_batches))) {
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
      const int64_t source = (static_cast<int64_t>(batch) * plan.global_batch + row) % data.num_rows;
      const auto feature = data.features.begin() + source * data.input_width;
      const auto target = data.targets.begin() + source * target_floats;
      features.insert(features.end(), feature, feature + data.input_width);
      targets.insert(targets.end(), target, target + target_floats);
    }
  }
  const size_t feature_bytes = features.size() * sizeof(float), target_bytes = targets.size() * sizeof(float);
  Stream& stream = trainer.compute_stream();
  if (plan.input == static_cast<int64_t>(InputMode::prefetch)) {
    features_ = device.allocate_host(feature_bytes);
    targets_ = device.allocate_host(target_bytes);
    std::memcpy(features_->data(), features.data(), feature_bytes);
    std::memcpy(targets_->data(), targets.data(), target_bytes);
    prefetcher_.emplace(device, stream, feature_floats_, target_floats_);
    for (size_t i = 0; i < Prefetcher::kPlaces; ++i) fill(i, i % num_batches_);
    prefetcher_->synchronize(deadline);
    return;
  }
  features_ = device.allocate(feature_bytes);
  targets_ = device.allocate(target_bytes);
  device.copy_in(stream, features_->data(), features.data(), feature_bytes);
  device.copy_in(stream, targets_->data(), targets.data(), target_bytes);
  stream.synchronize(deadline);
}

StepBatch BatchPool::place(size_t index) const {
  if (!features_) return {};
  if (prefetcher_) return prefetcher_->place(index);
  return {features_->as<float>() + static_cast<int64_t>(index) * feature_floats_,
          targets_->as<float>() + static_cast<int64_t>(index) * target_floats_};
}

void BatchPool::fill(size_t place, size_t batch) {
  prefetcher_->fill(place, features_->as<float>() + static_cast<int64_t>(batch) * feature_floats_,
                    targets_->as<float>() + static_cast<int64_t>(batch) * target_floats_);
  held_[place] = batch;
}

StepBatch BatchPool::take(size_t batch) {
  if (!prefetcher_) return place(batch);
  taken_ = batch;
  const size_t other = 1 - place_;
  if (held_[other] == batch) {
    place_ = other;
  } else if (held_[place_] != batch) {  // a new sequence of batches
    place_ = other;
    fill(place_, batch);
  }
  prefetcher_->begin(place_);
  return prefetcher_->place(place_);
}

void BatchPool::wait_for_places() {
  for (size_t i = 0; prefetcher_ && i < Prefetcher::kPlaces; ++i) prefetcher_->begin(i);
}

void BatchPool::done() {
  if (!prefetcher_) return;
  prefetcher_->end(place_);
  held_[place_] = kNone;
  const size_t next = (taken_ + 1) % num_batches_, other = 1 - place_;
  if (held_[other] != next) fill(other, next);
}

}  // namespace amdahl
