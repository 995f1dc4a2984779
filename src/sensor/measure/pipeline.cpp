#include "sensor/measure/pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "measure/sampling/rank_results.h"
#include "measure/sampling/rank_sampler.h"
#include "sensor/measure/stages.h"
#include "stats/summary.h"

namespace amdahl {
namespace {

using Clock = std::chrono::steady_clock;

enum Schedule : size_t { kSequential, kOverlapped, kTwoDevices, kNumSchedules };
constexpr std::array<const char*, kNumSchedules> kScheduleNames{"sequential", "overlapped", "two-devices"};

/// What the schedules took, and the stages alone; us a batch.
struct PipelineTimes {
  std::string error;
  std::array<std::vector<double>, kNumSchedules> time_us;
  std::array<std::vector<double>, kNumSchedules> losses;
  double fuse_us = 0, train_us = 0;
};

/// Batches of a sample: enough that filling and draining the pipeline weigh little.
int batches_of(const SensorBenchSettings& settings) { return std::max(settings.calls, 2 * kPipelineBatches); }

double us_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

/// Both stages on one device.
class OneDevice {
 public:
  OneDevice(RankContext& rank, const PipelinePlan& plan, const SensorBenchSettings& settings)
      : settings_(settings),
        num_batches_(batches_of(settings)),
        ops_(settings.make_ops(rank.device)),
        stream_(rank.device.make_stream("sensor")),
        buffers_(rank.device, plan),
        targets_(rank.device, plan, *stream_, deadline()),
        fuse_(rank, *ops_, plan, *stream_, deadline()),
        train_(rank, plan, settings, num_batches_) {}

  void measure(PipelineTimes& times) {
    for (const Schedule schedule : {kSequential, kOverlapped}) {
      train_.reset();
      run(schedule);
      times.losses[schedule] = train_.losses(deadline());
    }
    for (int i = 0; i < kWarmUp; ++i) run(kSequential), run(kOverlapped);
    // In turns, so that drift of the machine hits both alike.
    for (int i = 0; i < settings_.samples; ++i)
      for (const Schedule schedule : {kSequential, kOverlapped}) times.time_us[schedule].push_back(timed(schedule));
    times.fuse_us = stage_us([this](int batch) { fill(*stream_, batch); });
    times.train_us = stage_us([this](int batch) { train_.enqueue(buffers_.of(batch), batch); });
  }

 private:
  static constexpr int kWarmUp = 3;
  Deadline deadline() const { return Deadline::after_seconds(settings_.timeout_seconds); }

  void fill(Stream& stream, int batch) {
    BatchBuffers::Place& place = buffers_.of(batch);
    fuse_.enqueue(stream, batch, place.features->as<float>());
    targets_.enqueue_copy(stream, batch, *place.targets);
  }

  void synchronize() {
    stream_->synchronize(deadline());
    train_.synchronize();
  }

  void run(Schedule schedule) {
    for (int batch = 0; batch < num_batches_; ++batch) {
      BatchBuffers::Place& place = buffers_.of(batch);
      if (schedule == kSequential) {
        fill(train_.stream(), batch);
        train_.enqueue(place, batch);
        continue;
      }
      if (batch >= 2) stream_->wait(*place.freed);
      fill(*stream_, batch);
      stream_->record(*place.filled);
      train_.stream().wait(*place.filled);
      train_.enqueue(place, batch);
      train_.stream().record(*place.freed);
    }
    synchronize();
  }

  double timed(Schedule schedule) {
    const Clock::time_point start = Clock::now();
    run(schedule);
    return us_since(start) / num_batches_;
  }

  template <class Stage>
  double stage_us(const Stage& stage) {
    std::vector<double> samples;
    for (int i = 0; i < settings_.samples; ++i) {
      const Clock::time_point start = Clock::now();
      for (int batch = 0; batch < num_batches_; ++batch) stage(batch);
      synchronize();
      samples.push_back(us_since(start) / num_batches_);
    }
    return median_of(samples);
  }

  const SensorBenchSettings& settings_;
  int num_batches_;
  std::unique_ptr<SensorOps> ops_;
  std::unique_ptr<Stream> stream_;
  BatchBuffers buffers_;
  TargetPool targets_;
  FuseStage fuse_;
  TrainStage train_;
};

/// One side of the two-device pipeline: rank 0 fuses and sends, rank 1 receives and trains.
class Side {
 public:
  virtual ~Side() = default;
  /// All batches, until they are done here.
  virtual void run() = 0;
  virtual void reset() {}
  virtual std::vector<double> losses() { return {}; }
};

class FuseSide final : public Side {
 public:
  FuseSide(RankContext& rank, const PipelinePlan& plan, const SensorBenchSettings& settings)
      : rank_(rank),
        settings_(settings),
        count_(static_cast<size_t>(plan.job.num_items * plan.model.input_width)),
        ops_(settings.make_ops(rank.device)),
        stream_(rank.device.make_stream("sensor")),
        sending_(rank.device.make_stream("comm out")),
        buffers_(rank.device, plan),
        fuse_(rank, *ops_, plan, *stream_, deadline()) {}

  void run() override {
    for (int batch = 0; batch < batches_of(settings_); ++batch) {
      BatchBuffers::Place& place = buffers_.of(batch);
      if (batch >= 2) stream_->wait(*place.freed);
      fuse_.enqueue(*stream_, batch, place.features->as<float>());
      stream_->record(*place.filled);
      sending_->wait(*place.filled);
      rank_.communicator.send(place.features->data(), count_, DType::f32, 1, *sending_);
      sending_->record(*place.freed);
    }
    stream_->synchronize(deadline());
    sending_->synchronize(deadline());
  }

 private:
  Deadline deadline() const { return Deadline::after_seconds(settings_.timeout_seconds); }

  RankContext& rank_;
  const SensorBenchSettings& settings_;
  size_t count_;  // floats of a batch
  std::unique_ptr<SensorOps> ops_;
  std::unique_ptr<Stream> stream_, sending_;
  BatchBuffers buffers_;
  FuseStage fuse_;
};

class TrainSide final : public Side {
 public:
  TrainSide(RankContext& rank, const PipelinePlan& plan, const SensorBenchSettings& settings)
      : rank_(rank),
        settings_(settings),
        count_(static_cast<size_t>(plan.job.num_items * plan.model.input_width)),
        receiving_(rank.device.make_stream("comm in")),
        buffers_(rank.device, plan),
        targets_(rank.device, plan, *receiving_, deadline()),
        train_(rank, plan, settings, batches_of(settings)) {}

  void run() override {
    for (int batch = 0; batch < batches_of(settings_); ++batch) {
      BatchBuffers::Place& place = buffers_.of(batch);
      if (batch >= 2) receiving_->wait(*place.freed);
      rank_.communicator.recv(place.features->data(), count_, DType::f32, 0, *receiving_);
      targets_.enqueue_copy(*receiving_, batch, *place.targets);
      receiving_->record(*place.filled);
      train_.stream().wait(*place.filled);
      train_.enqueue(place, batch);
      train_.stream().record(*place.freed);
    }
    receiving_->synchronize(deadline());
    train_.synchronize();
  }
  void reset() override { train_.reset(); }
  std::vector<double> losses() override { return train_.losses(deadline()); }

 private:
  Deadline deadline() const { return Deadline::after_seconds(settings_.timeout_seconds); }

  RankContext& rank_;
  const SensorBenchSettings& settings_;
  size_t count_;  // floats of a batch
  std::unique_ptr<Stream> receiving_;
  BatchBuffers buffers_;
  TargetPool targets_;
  TrainStage train_;
};

void measure_two(RankContext& rank, const PipelinePlan& plan, const SensorBenchSettings& settings,
                 PipelineTimes& times) {
  constexpr int kWarmUp = 3;
  const auto deadline = [&] { return Deadline::after_seconds(settings.timeout_seconds); };
  std::unique_ptr<Side> side;
  times.error = error_of_allocating(rank.communicator, deadline(), [&] {
    if (rank.rank == 0)
      side = std::make_unique<FuseSide>(rank, plan, settings);
    else
      side = std::make_unique<TrainSide>(rank, plan, settings);
  });
  if (!times.error.empty()) return;
  side->reset();
  side->run();
  const auto losses = side->losses();  // before the deadline of the exchange begins
  times.losses[kTwoDevices] = exchange_results(rank.communicator, losses, deadline())[1];
  for (int i = 0; i < kWarmUp + settings.samples; ++i) {
    rank.communicator.barrier(deadline());
    const Clock::time_point start = Clock::now();
    side->run();
    const double slowest = RankSampler(rank.communicator, settings.timeout_seconds).slowest(us_since(start));
    if (i >= kWarmUp) times.time_us[kTwoDevices].push_back(slowest / batches_of(settings));
  }
}

// ---- records ----

/// The first loss that is not the sequential schedule's; empty when all are.
std::string wrong_loss(const PipelineTimes& times, Schedule schedule, bool exact) {
  constexpr double kTolerance = 1e-4;
  const std::vector<double>&want = times.losses[kSequential], &got = times.losses[schedule];
  if (got.size() != want.size()) return fmt::format("{} losses instead of {}", got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    const double tolerance = exact ? 0 : kTolerance * std::fabs(want[i]);
    if (!(std::fabs(got[i] - want[i]) <= tolerance))
      return fmt::format("the loss of batch {} is {:.9g} and {:.9g} in sequence", i, got[i], want[i]);
  }
  return {};
}

Record record_of(const PipelineTimes& times, Schedule schedule, const PipelinePlan& plan,
                 const SensorBenchSettings& settings) {
  SensorCell cell;
  cell.job = plan.job;
  cell.mode = "pipeline";
  cell.devices = schedule == kTwoDevices ? 2 : 1;
  cell.path = plan.path;
  Record record = start_sensor_record(cell, settings.provenance);
  record.axes["schedule"] = std::string(kScheduleNames[schedule]);
  record.axes["model"] = plan.model.name;
  record.axes["parameters"] = plan.model.num_parameters();
  const bool cpu = settings.provenance.device_kind == "cpu-virtual";
  record.axes["launch"] = std::string(cpu ? "eager" : "graph");
  const std::vector<double>& time = times.time_us[schedule];
  const std::string error = times.error.empty() ? wrong_loss(times, schedule, cpu) : times.error;
  if (!error.empty()) record.status = {Status::Kind::failed, error};
  if (time.empty()) return record;
  std::vector<double> throughput, bandwidth, hidden, share;
  for (size_t i = 0; i < time.size(); ++i) {
    throughput.push_back(static_cast<double>(plan.job.num_items) / time[i] * 1e6);
    bandwidth.push_back(useful_bytes(plan.job, 1) / time[i] * 1e-3);  // bytes/us to GB/s
    hidden.push_back(times.time_us[kSequential][i] - time[i]);
    share.push_back(100 * hidden.back() / times.fuse_us);
  }
  record.series = {{"time", "us", time},
                   {"throughput", "batches/s", throughput},
                   {"bandwidth", "GB/s", bandwidth},
                   {"preprocess_time", "us", {times.fuse_us}},
                   {"train_time", "us", {times.train_us}}};
  if (schedule != kSequential) {
    record.series.push_back({"time_hidden", "us", hidden});
    record.series.push_back({"hidden_share", "percent", share});
  }
  record.series.push_back({"checked", "1", {static_cast<double>(times.losses[schedule].size())}});
  return record;
}

}  // namespace

std::vector<Record> measure_sensor_pipeline(Fleet& fleet, const PipelinePlan& plan,
                                            const SensorBenchSettings& settings) {
  PipelineTimes times;
  bool root = false;
  fleet.run(1, [&](RankContext& rank) {
    root = true;
    times.error = error_of_allocating(rank.communicator, Deadline::after_seconds(settings.timeout_seconds),
                                      [&] { OneDevice(rank, plan, settings).measure(times); });
  });
  if (fleet.agree(times.error).empty())
    fleet.run(2, [&](RankContext& rank) {
      PipelineTimes own;
      measure_two(rank, plan, settings, own);
      if (rank.rank != 0) return;
      times.error = own.error;
      times.time_us[kTwoDevices] = own.time_us[kTwoDevices];
      times.losses[kTwoDevices] = own.losses[kTwoDevices];
    });
  if (!root) return {};
  std::vector<Record> records;
  for (const Schedule schedule : {kSequential, kOverlapped, kTwoDevices})
    records.push_back(record_of(times, schedule, plan, settings));
  return records;
}

}  // namespace amdahl
