#include "measure/training/train_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <numeric>

#include "measure/sampling/rank_sampler.h"
#include "measure/training/measured_shares.h"
#include "measure/training/training_data.h"
#include "train/replicas.h"

namespace amdahl {
namespace {

using Clock = std::chrono::steady_clock;

std::vector<int32_t> epoch_order(const std::vector<int32_t>& rows, uint64_t seed, int epoch) {
  std::vector<int32_t> order = permutation(static_cast<int64_t>(rows.size()), seed, static_cast<uint64_t>(epoch));
  for (int32_t& index : order) index = rows[static_cast<size_t>(index)];
  return order;
}

void require_finite(double loss, const char* what, int epoch) {
  if (std::isfinite(loss)) return;
  throw Error(Cause::non_finite, fmt::format("the {} of epoch {} is {}", what, epoch, loss),
              "a smaller `learning_rate`, `clip_norm`, or check the data for extreme values");
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
  /// From the longest time over all ranks. Collective.
  void set_timeouts(RankContext& rank, Trainer& trainer, const TrainerOptions& options) {
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

/// Agrees among the ranks to stop after the same step. They ask each other about every half second, because a question
/// after each step would cost more than small steps; all know how long the slowest took, and so when to ask next.
class StopAgreement {
 public:
  /// After each step of all ranks: whether one of them was asked to stop. Collective.
  bool reached(RankContext& rank, bool asked, Deadline deadline) {
    if (++since_ < period_) return false;
    const auto now = Clock::now();
    const Message mine{asked ? 1.0 : 0.0, std::chrono::duration<double>(now - last_).count()};
    Message all{};
    const std::string bytes(reinterpret_cast<const char*>(&mine), sizeof mine);
    for (const std::string& said : rank.communicator.exchange(bytes, deadline)) {
      Message one{};
      std::memcpy(&one, said.data(), std::min(said.size(), sizeof one));
      all = {std::max(all.asked, one.asked), std::max(all.seconds, one.seconds)};
    }
    const double steps = static_cast<double>(period_) * kSeconds / std::max(all.seconds, 1e-6);
    period_ = static_cast<int64_t>(std::clamp(steps, 1.0, 4.0 * static_cast<double>(period_)));
    since_ = 0;
    last_ = now;
    return all.asked > 0;
  }

 private:
  static constexpr double kSeconds = 0.5;
  struct Message {
    double asked, seconds;
  };
  int64_t period_ = 1, since_ = 0;
  Clock::time_point last_ = Clock::now();
};

/// What the ranks of a process tell about their checkpoints.
struct CheckpointState {
  std::atomic<bool> any{false};     // there is one to go on from
  std::atomic<int64_t> stopped{0};  // step after which the training ended with a checkpoint; 0: it did not
};

/// One rank of a training.
class TrainRank {
 public:
  TrainRank(RankContext& rank, const Dataset& data, const TrainSettings& settings, const Split& split,
            const TrainEvents& events, CheckpointState& checkpoints)
      : rank_(rank),
        data_(data),
        settings_(settings),
        split_(split),
        events_(events),
        checkpoints_(checkpoints),
        bytes_before_(rank.device.allocated_bytes()),
        trainer_(rank, settings.trainer),
        input_(make_training_data(rank, trainer_, data, split, settings.trainer.plan, deadline())),
        steps_(static_cast<int64_t>(split.train.size()) / settings.trainer.plan.global_batch),
        done_(settings.start.step) {
    if (done_ > 0)
      load_state(trainer_.parts(), settings.state);
    else if (settings.has_weights)
      load_parameters(trainer_.parts(), settings.state.parameters);
  }

  void run() {
    const int first = static_cast<int>(settings_.start.epoch);
    for (int epoch = first; epoch <= settings_.epochs; ++epoch) {
      const int64_t begin = epoch == first ? settings_.start.epoch_step : 0;
      StepStats local;
      if (epoch == first) local.loss = loss_so_far();
      train_epoch(epoch, begin, epoch == first, local);
      if (epoch > first || !settings_.trainer.auto_timeout) continue;
      clock_.step_ended();
      clock_.set_timeouts(rank_, trainer_, settings_.trainer);
    }
  }
  TrainingParts& parts() { return trainer_.parts(); }

 private:
  Deadline deadline() const { return Deadline::after_seconds(settings_.trainer.timeout_seconds); }

  /// This rank's part of the loss of an epoch that was begun before; with another number of ranks rank 0 takes all of
  /// it.
  double loss_so_far() const {
    const std::vector<double>& losses = settings_.start.epoch_losses;
    if (losses.size() == static_cast<size_t>(rank_.world_size)) return losses[static_cast<size_t>(rank_.rank)];
    return rank_.rank == 0 ? std::accumulate(losses.begin(), losses.end(), 0.0) : 0.0;
  }

  void train_epoch(int epoch, int64_t begin, bool timed, StepStats& local) {
    const auto start = Clock::now();
    const int64_t batch = settings_.trainer.plan.global_batch;
    other_seconds_ = 0;
    input_->select(epoch_order(split_.train, settings_.trainer.seed, epoch), deadline());
    for (int64_t step = begin; step < steps_; ++step) {
      input_->step(step * batch);
      local.loss += local_stats(trainer_.parts()).loss / static_cast<double>(steps_);
      ++done_;
      if (events_.stepped) events_.stepped(done_);
      if (timed) clock_.step_ended();
      const auto pause = Clock::now();
      check(epoch == settings_.epochs && step + 1 == steps_);
      save(epoch, step + 1, local.loss);
      stop_if_asked(epoch, step + 1, local.loss);
      other_seconds_ += std::chrono::duration<double>(Clock::now() - pause).count();
    }
    trainer_.parts().finish_updates();
    const double loss = sum_over_ranks(trainer_.parts(), local).loss;
    const std::optional<LossScale> scale = read_loss_scale(trainer_.parts());
    EpochResult result;
    result.epoch = epoch;
    result.seconds = std::chrono::duration<double>(Clock::now() - start).count() - other_seconds_;
    result.samples_per_second = static_cast<double>((steps_ - begin) * batch) / result.seconds;
    result.train_loss = loss;
    if (scale) {
      result.loss_scale = static_cast<double>(scale->scale);
      result.skipped_steps = static_cast<int64_t>(scale->skipped_steps);
    }
    result.memory_peak_bytes = static_cast<int64_t>(rank_.device.peak_allocated_bytes() - bytes_before_);
    if (rank_.rank == 0) require_finite(loss, "loss", epoch);
    if (takes_part_in_evaluation(trainer_.parts())) validate(result);
    if (rank_.rank == 0) events_.finished(result);
  }

  void validate(EpochResult& result) {
    const auto rows = static_cast<int64_t>(split_.validation.size());
    if (rows == 0) return;
    const StepStats validation = input_->validate();
    result.validation_loss = validation.loss;
    require_finite(validation.loss, "validation loss", result.epoch);
    if (data_.loss == LossKind::softmax_cross_entropy)
      result.validation_accuracy = validation.correct / static_cast<double>(rows * data_.targets_per_row);
    else
      result.validation_mae = validation.absolute_error;
  }

  void check(bool last) {
    if (!last && (settings_.check_every == 0 || done_ % settings_.check_every != 0)) return;
    trainer_.parts().finish_updates();
    check_replicas(trainer_.parts(), settings_.trainer.timeout_seconds, fmt::format("after step {}", done_));
  }

  void save(int epoch, int64_t epoch_step, double loss) {
    due_ = due_ || (settings_.checkpoint_every > 0 && done_ % settings_.checkpoint_every == 0);
    if (due_ && updates_finished(epoch_step)) write(epoch, epoch_step, loss);
  }

  /// Whether a checkpoint after this step of the epoch changes nothing: at its end updates are finished anyway.
  bool updates_finished(int64_t epoch_step) {
    return trainer_.parts().sync->updates_finished() || epoch_step == steps_;
  }

  /// Goes on to where the ranks hold the same by themselves, if that is within a period of the strategy.
  void stop_if_asked(int epoch, int64_t epoch_step, double loss) {
    if (settings_.checkpoint_every == 0 || !events_.stop_asked) return;
    if (stopping_ == 0 && stop_.reached(rank_, events_.stop_asked(), deadline())) stopping_ = done_;
    if (stopping_ == 0 || (!updates_finished(epoch_step) && done_ - stopping_ < trainer_.parts().sync->period()))
      return;
    if (saved_ != done_) write(epoch, epoch_step, loss);
    checkpoints_.stopped = done_;
    throw Error(Cause::interrupted, "stopped by the user");
  }

  void write(int epoch, int64_t epoch_step, double loss) {
    constexpr double kSlowDisk = 1800;  // seconds that the other ranks wait for rank 0 to write
    TrainingPoint point{done_, epoch, epoch_step, {}};
    const std::string mine(reinterpret_cast<const char*>(&loss), sizeof loss);
    for (const std::string& bytes : rank_.communicator.exchange(mine, deadline())) {
      double part = 0;
      std::memcpy(&part, bytes.data(), std::min(bytes.size(), sizeof part));
      point.epoch_losses.push_back(part);
    }
    const TrainerState state = save_state(trainer_.parts());
    if (rank_.rank == 0) events_.checkpoint(point, state);
    rank_.communicator.barrier(Deadline::after_seconds(settings_.trainer.timeout_seconds + kSlowDisk));
    due_ = false;
    saved_ = done_;
    checkpoints_.any = true;
  }

  RankContext& rank_;
  const Dataset& data_;
  const TrainSettings& settings_;
  const Split& split_;
  const TrainEvents& events_;
  CheckpointState& checkpoints_;
  const size_t bytes_before_;  // allocated on the device by others
  Trainer trainer_;
  const std::unique_ptr<TrainingData> input_;
  const int64_t steps_;       // of an epoch
  int64_t done_;              // steps
  double other_seconds_ = 0;  // of the epoch, spent on comparisons and checkpoints
  StepClock clock_;
  bool due_ = false;                  // a checkpoint
  int64_t saved_ = 0, stopping_ = 0;  // steps: of the last checkpoint, and after which the ranks agreed to stop
  StopAgreement stop_;
};

}  // namespace

MemoryParts training_memory(const TrainSettings& settings, const Dataset& data, BackendKind backend, MathMode math) {
  const ParallelPlan& plan = settings.trainer.plan;
  const StrategyRow& row = find_strategy(plan.strategy);
  const int64_t batch_rows = row.full_batch_everywhere || row.data_on_root ? plan.global_batch : most_data_rows(plan);
  const int64_t validation_rows = std::llround(static_cast<double>(data.num_rows) * settings.validation_fraction);
  const bool prefetches = plan.input == static_cast<int64_t>(InputMode::prefetch);
  const int64_t rows = validation_rows + (prefetches ? 2 * batch_rows : data.num_rows + batch_rows);
  MemoryParts parts = trainer_memory(settings.trainer, backend, math);
  parts.data += rows * (data.input_width + data.target_floats()) * static_cast<int64_t>(sizeof(float));
  return parts;
}

TrainedModel run_training(Fleet& fleet, const Dataset& data, const TrainSettings& settings, const TrainEvents& events) {
  const Split split = split_data(data, settings.validation_fraction, settings.trainer.seed);
  TrainedModel trained;
  TrainEvents counted = events;
  counted.finished = [&](const EpochResult& result) {
    trained.epochs.push_back(result);
    events.finished(result);
  };
  CheckpointState checkpoints;
  checkpoints.any = settings.start.step > 0;
  try {
    const int devices = settings.trainer.plan.num_devices();
    fleet.run(devices, [&](RankContext& rank) {
      require_device_memory(rank.device, devices_sharing_memory(fleet, devices), settings.trainer,
                            with_groups(training_memory(settings, data, rank.device.backend(), rank.ops->math()),
                                        settings.trainer, rank.communicator));
      rank.communicator.barrier(Deadline::after_seconds(settings.trainer.timeout_seconds));  // before any allocates
      TrainSettings mine = settings;
      if (mine.trainer.plan.shares == kAutoShares && devices > 1) {
        const MeasuredShares measured = measure_shares(rank, mine.trainer, data);
        mine.trainer.plan.shares = measured.shares;
        if (rank.rank == 0 && events.shares) events.shares(mine.trainer.plan, measured.speeds);
      }
      TrainRank training(rank, data, mine, split, counted, checkpoints);
      training.run();
      std::vector<float> parameters = gather_parameters(training.parts());
      std::vector<NamedArray> buffers = gather_buffers(training.parts());
      if (rank.rank != 0) return;
      trained.parameters = std::move(parameters);
      trained.buffers = std::move(buffers);
    });
  } catch (const Error& error) {
    if (error.cause() != Cause::interrupted) throw;
    if (checkpoints.stopped > 0)
      throw Error(
          Cause::interrupted,
          fmt::format("stopped by the user after step {}, whose checkpoint is written", checkpoints.stopped.load()),
          "`resume` to go on from it");
    throw Error(
        Cause::interrupted, "stopped by the user; the records of the epochs before are kept",
        checkpoints.any ? "`resume` to go on from the last checkpoint" : "train again into another `output_dir`");
  }
  return trained;
}

}  // namespace amdahl
