#include "measure/training/training_data.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "measure/training/prefetch.h"

namespace amdahl {
namespace {

size_t bytes_of_floats(int64_t count) { return static_cast<size_t>(count) * sizeof(float); }

/// What both input modes share: the validation rows in the device's memory.
class DataOfRank : public TrainingData {
 public:
  DataOfRank(RankContext& rank, Trainer& trainer, const Dataset& data, const Split& split)
      : rank_(rank),
        trainer_(trainer),
        data_(data),
        width_(data.input_width),
        target_floats_(data.target_floats()),
        mine_(trainer.rows_to_provide()),
        validation_rows_(static_cast<int64_t>(split.validation.size())) {
    validation_features_ = rank.device.allocate(bytes_of_floats(std::max<int64_t>(validation_rows_, 1) * width_));
    validation_targets_ =
        rank.device.allocate(bytes_of_floats(std::max<int64_t>(validation_rows_, 1) * target_floats_));
  }

  StepStats validate() override {
    return evaluate(trainer_.parts(), validation_features_->as<float>(), validation_targets_->as<float>(),
                    validation_rows_);
  }

 protected:
  Stream& stream() { return trainer_.compute_stream(); }
  void upload(Buffer& to, const std::vector<float>& values, Deadline deadline) {
    rank_.device.copy_in(stream(), to.data(), values.data(), values.size() * sizeof(float));
    stream().synchronize(deadline);
  }

  RankContext& rank_;
  Trainer& trainer_;
  const Dataset& data_;
  const int64_t width_, target_floats_;
  const RowRange mine_;  // rows of a global batch that this rank provides
  const int64_t validation_rows_;
  std::unique_ptr<Buffer> validation_features_, validation_targets_;
};

/// The data set on the device, and the current batch.
class ResidentData final : public DataOfRank {
 public:
  ResidentData(RankContext& rank, Trainer& trainer, const Dataset& data, const Split& split, Deadline deadline)
      : DataOfRank(rank, trainer, data, split) {
    features_ = rank.device.allocate(data.features.size() * sizeof(float));
    targets_ = rank.device.allocate(data.targets.size() * sizeof(float));
    upload(*features_, data.features, deadline);
    upload(*targets_, data.targets, deadline);
    indices_ = rank.device.allocate(std::max(split.train.size(), split.validation.size()) * sizeof(int32_t));
    batch_features_ = rank.device.allocate(bytes_of_floats(std::max<int64_t>(mine_.rows(), 1) * width_));
    batch_targets_ = rank.device.allocate(bytes_of_floats(std::max<int64_t>(mine_.rows(), 1) * target_floats_));
    select(split.validation, deadline);
    gather(0, validation_rows_, *validation_features_, *validation_targets_);
    trainer.synchronize();
  }

  void select(const std::vector<int32_t>& rows, Deadline deadline) override {
    if (rows.empty()) return;
    rank_.device.copy_in(stream(), indices_->data(), rows.data(), rows.size() * sizeof(int32_t));
    stream().synchronize(deadline);
  }
  void step(int64_t first) override {
    gather(first + mine_.begin, mine_.rows(), *batch_features_, *batch_targets_);
    trainer_.step(batch_features_->as<float>(), batch_targets_->as<float>());
  }

 private:
  void gather(int64_t first, int64_t rows, Buffer& features, Buffer& targets) {
    if (rows == 0) return;
    const int32_t* order = indices_->as<int32_t>() + first;
    rank_.ops->elementwise().gather_rows(stream(), features_->as<float>(), order, features.as<float>(), rows, width_);
    rank_.ops->elementwise().gather_rows(stream(), targets_->as<float>(), order, targets.as<float>(), rows,
                                         target_floats_);
  }

  std::unique_ptr<Buffer> features_, targets_, indices_, batch_features_, batch_targets_;
};

/// The data set in host memory. While a step runs, the host gathers the rows of the next one into pinned memory and a
/// second stream copies them.
class PrefetchedData final : public DataOfRank {
 public:
  PrefetchedData(RankContext& rank, Trainer& trainer, const Dataset& data, const Split& split, const ParallelPlan& plan,
                 Deadline deadline)
      : DataOfRank(rank, trainer, data, split), batch_(plan.global_batch) {
    const int64_t feature_floats = mine_.rows() * width_, target_floats = mine_.rows() * target_floats_;
    for (HostBatch& batch : host_) {
      batch.features = rank.device.allocate_host(bytes_of_floats(std::max<int64_t>(feature_floats, 1)));
      batch.targets = rank.device.allocate_host(bytes_of_floats(std::max<int64_t>(target_floats, 1)));
    }
    prefetcher_ = std::make_unique<Prefetcher>(rank.device, trainer.compute_stream(), feature_floats, target_floats);
    if (validation_rows_ == 0) return;
    std::vector<float> features(static_cast<size_t>(validation_rows_ * width_));
    std::vector<float> targets(static_cast<size_t>(validation_rows_ * target_floats_));
    gather(split.validation.data(), validation_rows_, features.data(), targets.data());
    upload(*validation_features_, features, deadline);
    upload(*validation_targets_, targets, deadline);
  }

  void select(const std::vector<int32_t>& rows, Deadline deadline) override {
    prefetcher_->synchronize(deadline);
    order_ = rows;
    for (HostBatch& batch : host_) batch.first = -1;
  }
  void step(int64_t first) override {
    if (host_[place_].first != first) fetch(place_, first);
    prefetcher_->begin(place_);
    const StepBatch batch = prefetcher_->place(place_);
    trainer_.step(batch.features, batch.targets);
    prefetcher_->end(place_);
    place_ = 1 - place_;
    if (first + 2 * batch_ <= static_cast<int64_t>(order_.size())) fetch(place_, first + batch_);
  }

 private:
  struct HostBatch {
    std::unique_ptr<Buffer> features, targets;
    int64_t first = -1;  // of its rows in the order
  };

  void gather(const int32_t* rows, int64_t count, float* features, float* targets) const {
    for (int64_t i = 0; i < count; ++i) {
      std::memcpy(features + i * width_, data_.features.data() + rows[i] * width_, bytes_of_floats(width_));
      std::memcpy(targets + i * target_floats_, data_.targets.data() + rows[i] * target_floats_,
                  bytes_of_floats(target_floats_));
    }
  }
  /// The step that read this place before is done, and so is the copy that it waited for.
  void fetch(size_t place, int64_t first) {
    HostBatch& batch = host_[place];
    batch.first = first;
    gather(order_.data() + first + mine_.begin, mine_.rows(), batch.features->as<float>(), batch.targets->as<float>());
    prefetcher_->fill(place, batch.features->as<float>(), batch.targets->as<float>());
  }

  const int64_t batch_;
  std::vector<int32_t> order_;
  std::array<HostBatch, Prefetcher::kPlaces> host_;
  size_t place_ = 0;
  std::unique_ptr<Prefetcher> prefetcher_;  // its copies end before their memory does
};

}  // namespace

std::unique_ptr<TrainingData> make_training_data(RankContext& rank, Trainer& trainer, const Dataset& data,
                                                 const Split& split, const ParallelPlan& plan, Deadline deadline) {
  if (plan.input == static_cast<int64_t>(InputMode::prefetch))
    return std::make_unique<PrefetchedData>(rank, trainer, data, split, plan, deadline);
  return std::make_unique<ResidentData>(rank, trainer, data, split, deadline);
}

}  // namespace amdahl
