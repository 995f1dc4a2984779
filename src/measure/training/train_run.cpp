#include "measure/training/train_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include "measure/sampling/rank_sampler.h"
#include "train/replicas.h"

namespace amdahl {
namespace {

using Clock = std::chrono::steady_clock;

size_t float_bytes(int64_t count) { return static_cast<size_t>(count) * sizeof(float); }

// The data set on a rank's device, and the staging buffers of the current batch.
class ResidentData {
 public:
  ResidentData(RankContext& rank, Trainer& trainer, const Dataset& data, const Split& split, Deadline deadline)
      : rank_(rank),
        trainer_(trainer),
        width_(data.input_width),
        target_floats_(data.loss == LossKind::mse ? data.output_width : 1),
        mine_(trainer.rows_to_provide()) {
    features_ = upload(data.features, deadline);
    targets_ = upload(data.targets, deadline);
    indices_ = rank_.device.allocate(std::max(split.train.size(), split.validation.size()) * sizeof(int32_t));
    batch_features_ = rank_.device.allocate(float_bytes(std::max<int64_t>(mine_.rows(), 1) * width_));
    batch_targets_ = rank_.device.allocate(float_bytes(std::max<int64_t>(mine_.rows(), 1) * target_floats_));
    const auto validation_rows = static_cast<int64_t>(split.validation.size());
    validation_features_ = rank_.device.allocate(float_bytes(std::max<int64_t>(validation_rows, 1) * width_));
    validation_targets_ = rank_.device.allocate(float_bytes(std::max<int64_t>(validation_rows, 1) * target_floats_));
    select(split.validation, deadline);
    gather(0, validation_rows, *validation_features_, *validation_targets_);
    trainer_.synchronize();
  }

  /// Sets the row order of an epoch.
  void select(const std::vector<int32_t>& rows, Deadline deadline) {
    if (rows.empty()) return;
    rank_.device.copy_in(stream(), indices_->data(), rows.data(), rows.size() * sizeof(int32_t));
    stream().synchronize(deadline);
  }
  /// Runs one step on rows [first, first + global batch) of the epoch's order.
  void step(int64_t first) {
    if (mine_.rows() > 0) gather(first + mine_.begin, mine_.rows(), *batch_features_, *batch_targets_);
    trainer_.step(batch_features_->as<float>(), batch_targets_->as<float>());
  }
  StepStats validate(int64_t rows) {
    return trainer_.evaluate(validation_features_->as<float>(), validation_targets_->as<float>(), rows);
  }

 private:
  Stream& stream() { return trainer_.compute_stream(); }

  std::unique_ptr<Buffer> upload(const std::vector<float>& values, Deadline deadline) {
    std::unique_ptr<Buffer> buffer = rank_.device.allocate(values.size() * sizeof(float));
    rank_.device.copy_in(stream(), buffer->data(), values.data(), buffer->bytes());
    stream().synchronize(deadline);
    return buffer;
  }
  void gather(int64_t first, int64_t rows, Buffer& features, Buffer& targets) {
    if (rows == 0) return;
    const int32_t* order = indices_->as<int32_t>() + first;
    rank_.ops->elementwise().gather_rows(stream(), features_->as<float>(), order, features.as<float>(), rows, width_);
    rank_.ops->elementwise().gather_rows(stream(), targets_->as<float>(), order, targets.as<float>(), rows,
                                         target_floats_);
  }

  RankContext& rank_;
  Trainer& trainer_;
  int64_t width_, target_floats_;
  RowRange mine_;
  std::unique_ptr<Buffer> features_, targets_, indices_, batch_features_, batch_targets_, validation_features_,
      validation_targets_;
};

std::vector<int32_t> epoch_order(const std::vector<int32_t>& rows, uint64_t seed, int epoch) {
  std::vector<int32_t> order = permutation(static_cast<int64_t>(rows.size()), seed, static_cast<uint64_t>(epoch));
  for (int32_t& index : order) index = rows[static_cast<size_t>(index)];
  return order;
}

void require_finite(double loss, const char* what, int epoch) {
  if (std::isfinite(loss)) return;
  throw Error(Cause::non_finite, fmt::format("the {} of epoch {} is {}", what, epoch, loss),
              "a smaller `learning_rate`, or check the data for extreme values");
}

/// The basis of `auto_timeout`: the longest time between the ends of two consecutive steps of the first epoch, from the
/// third step on, including rank 0's work after the last one.
class StepClock {
 public:
  void step_ended() {
    const auto now = Clock::now();
    if (++steps_ > kCold) longest_ = std::max(longest_, std::chrono::duration<double>(now - last_).count());
    last_ = now;
  }
  /// Sets later deadlines from the longest time over all ranks. Collective.
  void limit_waits(RankContext& rank, Trainer& trainer, const TrainerOptions& options) {
    const double longest = RankSampler(rank.communicator, options.timeout_seconds).slowest(longest_);
    const AutoTimeouts limits = auto_timeouts(longest, 1);
    rank.communicator.set_timeout(limits.collective_seconds);
    trainer.set_timeout(limits.host_seconds);
  }

 private:
  static constexpr int64_t kCold = 3;
  int64_t steps_ = 0;
  double longest_ = 0;
  Clock::time_point last_ = Clock::now();
};

void train_rank(RankContext& rank, const Dataset& data, const TrainSettings& settings, const Split& split,
                const std::function<void(const EpochResult&)>& finished, std::vector<float>& parameters) {
  const Deadline patience = Deadline::after_seconds(settings.trainer.timeout_seconds);
  Trainer trainer(rank, settings.trainer);
  ResidentData resident(rank, trainer, data, split, patience);
  const int64_t batch = settings.trainer.plan.global_batch;
  const int64_t steps = static_cast<int64_t>(split.train.size()) / batch;
  const auto validation_rows = static_cast<int64_t>(split.validation.size());
  StepClock clock;
  int64_t done = 0;  // steps
  for (int epoch = 1; epoch <= settings.epochs; ++epoch) {
    const auto start = Clock::now();
    const Deadline deadline = Deadline::after_seconds(settings.trainer.timeout_seconds);
    resident.select(epoch_order(split.train, settings.trainer.seed, epoch), deadline);
    StepStats local;
    double checks_seconds = 0;
    for (int64_t step = 0; step < steps; ++step) {
      resident.step(step * batch);
      local.loss += trainer.local_stats().loss / static_cast<double>(steps);
      ++done;
      if (epoch == 1) clock.step_ended();
      const bool last = epoch == settings.epochs && step + 1 == steps;
      if (!last && (settings.check_every == 0 || done % settings.check_every != 0)) continue;
      const auto check_start = Clock::now();
      check_replicas(rank, trainer, settings.trainer, fmt::format("after step {}", done));
      checks_seconds += std::chrono::duration<double>(Clock::now() - check_start).count();
    }
    const double loss = trainer.sum_over_ranks(local).loss;
    if (rank.rank == 0) {  // rank 0 has the weights under every strategy
      EpochResult result;
      result.epoch = epoch;
      result.seconds = std::chrono::duration<double>(Clock::now() - start).count() - checks_seconds;
      result.samples_per_second = static_cast<double>(steps * batch) / result.seconds;
      result.train_loss = loss;
      require_finite(loss, "loss", epoch);
      if (validation_rows > 0) {
        const StepStats validation = resident.validate(validation_rows);
        result.validation_loss = validation.loss;
        require_finite(validation.loss, "validation loss", epoch);
        if (data.loss == LossKind::softmax_cross_entropy)
          result.validation_accuracy = validation.correct / static_cast<double>(validation_rows);
      }
      finished(result);
    }
    if (epoch > 1 || !settings.trainer.auto_timeout) continue;
    clock.step_ended();
    clock.limit_waits(rank, trainer, settings.trainer);
  }
  if (rank.rank == 0) parameters = trainer.parameters();
}

}  // namespace

TrainedModel run_training(Fleet& fleet, const Dataset& data, const TrainSettings& settings,
                          const std::function<void(const EpochResult&)>& finished) {
  const Split split = split_rows(data.num_rows, settings.validation_fraction, settings.trainer.seed);
  TrainedModel trained;
  try {
    fleet.run(settings.trainer.plan.num_devices(), [&](RankContext& rank) {
      const auto keep = [&](const EpochResult& result) {
        trained.epochs.push_back(result);
        finished(result);
      };
      train_rank(rank, data, settings, split, keep, trained.parameters);
    });
  } catch (const Error& error) {
    if (error.cause() != Cause::interrupted) throw;
    throw Error(Cause::interrupted, "stopped by the user; the records of the epochs before are kept",
                "train again into another `output_dir`");
  }
  return trained;
}

}  // namespace amdahl
