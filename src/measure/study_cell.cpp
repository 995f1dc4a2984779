#include "measure/study_cell.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "measure/packer.h"
#include "stats/stopping.h"

namespace amdahl {
namespace {

constexpr double RankRun::*kScalars[] = {&RankRun::step_us,
                                         &RankRun::loss_first,
                                         &RankRun::loss_last,
                                         &RankRun::memory_peak_bytes,
                                         &RankRun::utilisation_percent,
                                         &RankRun::comm_bytes,
                                         &RankRun::clock_before_mhz,
                                         &RankRun::clock_after_mhz,
                                         &RankRun::temperature_c,
                                         &RankRun::power_w,
                                         &RankRun::energy_j,
                                         &RankRun::throttle_reasons};
constexpr double StepTimes::*kTimes[] = {&StepTimes::step,     &StepTimes::input,     &StepTimes::forward,
                                         &StepTimes::backward, &StepTimes::optimizer, &StepTimes::idle};

std::string pack(const RankRun& run) {
  Packer packer;
  for (const auto member : kScalars) packer.number(run.*member);
  packer.number(static_cast<double>(run.accounted.size()));
  for (const StepTimes& times : run.accounted) {
    for (const auto member : kTimes) packer.number(times.*member);
    packer.numbers(times.stalls);
    packer.numbers(times.collectives);
  }
  return packer.bytes();
}

RankRun unpack(const std::string& bytes) {
  Unpacker unpacker(bytes);
  RankRun run;
  for (const auto member : kScalars) run.*member = unpacker.number();
  run.accounted.resize(static_cast<size_t>(unpacker.number()));
  for (StepTimes& times : run.accounted) {
    for (const auto member : kTimes) times.*member = unpacker.number();
    times.stalls = unpacker.numbers();
    times.collectives = unpacker.numbers();
  }
  return run;
}

std::string pack_number(double value) {
  Packer packer;
  packer.number(value);
  return packer.bytes();
}

double unpack_number(const std::string& bytes) { return Unpacker(bytes).number(); }

Deadline deadline_of(const TrainerOptions& options) { return Deadline::after_seconds(options.timeout_seconds); }

}  // namespace

double metered_energy_j(double before_j, double after_j, double seconds) {
  constexpr double kShortest = 2;
  return before_j >= 0 && after_j > before_j && seconds >= kShortest ? after_j - before_j : -1;
}

std::vector<RankRun> gather_runs(Communicator& communicator, const RankRun& mine, Deadline deadline) {
  std::vector<RankRun> runs;
  for (const std::string& bytes : communicator.exchange(pack(mine), deadline)) runs.push_back(unpack(bytes));
  return runs;
}

StudyCellRank::StudyCellRank(const RankContext& rank, const TrainerOptions& options, const Dataset& data,
                             const StudySettings& settings)
    : rank_(rank),
      options_(options),
      settings_(settings),
      bytes_before_(rank.device.allocated_bytes()),
      trainer_(rank, options),
      pool_(trainer_, rank.device, data, options.plan.global_batch, settings.pool_batches, deadline_of(options)),
      own_bytes_(rank.device.allocated_bytes() - bytes_before_),
      start_(rank.device.make_event()),
      end_(rank.device.make_event()) {}

double StudyCellRank::timed_steps(int steps, RankRun* run) {
  trainer_.synchronize();
  rank_.communicator.barrier(deadline_of(options_));
  DeviceHealth before;
  if (run) {
    before = rank_.device.health();
    run->clock_before_mhz = before.sm_clock_mhz;
  }
  Stream& stream = trainer_.compute_stream();
  stream.stamp(*start_);
  for (int i = 0; i < steps; ++i) {
    if (rank_.device.stop_asked()) trainer_.synchronize();  // throws, and drops the steps that are queued
    const size_t batch = static_cast<size_t>(i) % pool_.size();
    trainer_.step(pool_.features(batch), pool_.targets(batch));
  }
  stream.stamp(*end_);
  if (run) {  // while the steps run
    const DeviceHealth health = rank_.device.health();
    run->utilisation_percent = health.utilisation_percent;
    run->clock_after_mhz = health.sm_clock_mhz;
    run->temperature_c = health.temperature_c;
    run->power_w = health.power_w;
    run->throttle_reasons = static_cast<double>(health.throttle_reasons);
  }
  trainer_.synchronize();
  const double elapsed_us = rank_.device.elapsed_us(*start_, *end_);
  if (run) run->energy_j = metered_energy_j(before.energy_j, rank_.device.health().energy_j, elapsed_us / 1e6);
  return elapsed_us / steps;
}

std::vector<StepTimes> StudyCellRank::instrumented_steps(LaunchMode mode) {
  std::vector<StepTimes> times;
  for (int i = 0; i <= settings_.accounted_steps; ++i) {
    rank_.communicator.barrier(deadline_of(options_));
    times.push_back(trainer_.instrumented_step(pool_.features(0), pool_.targets(0), mode));
  }
  times.erase(times.begin());  // the first one makes the events, or captures its graph
  return times;
}

// Where a backend cannot see its own idle time, launch gaps are what the same work takes longer when it is launched
// piece by piece instead of replayed as one graph.
std::vector<StepTimes> StudyCellRank::accounted_steps() {
  std::vector<StepTimes> times = instrumented_steps(options_.launch);
  if (options_.launch == LaunchMode::graph || !rank_.device.supports_graphs().ok) return times;
  const std::vector<StepTimes> replayed = instrumented_steps(LaunchMode::graph);
  const auto work = [](const StepTimes& t) { return t.forward + t.backward; };
  for (size_t i = 0; i < times.size(); ++i) times[i].idle = std::max(0.0, work(times[i]) - work(replayed[i]));
  return times;
}

// The first run goes on in blocks until their times show no trend, at most kMaxBlocks of them; later runs are warm.
void StudyCellRank::warm_up() {
  constexpr int kBlocks = 5;
  constexpr size_t kMaxBlocks = 20;
  const int block = std::max(1, settings_.warmup / kBlocks);
  std::vector<double> times;
  const size_t wanted = warm_ ? kBlocks : kMaxBlocks;
  while (times.size() < wanted) {
    const double mine = timed_steps(block, nullptr);
    double slowest = mine;
    if (!warm_) {  // all ranks must agree when it is over
      for (const std::string& bytes : rank_.communicator.exchange(pack_number(mine), deadline_of(options_)))
        slowest = std::max(slowest, unpack_number(bytes));
    }
    times.push_back(slowest);
    if (!warm_ && warmed_up(times)) break;
  }
  warm_ = true;
}

RankRun StudyCellRank::run() {
  RankRun run;
  rank_.device.reset_peak();
  const size_t bytes_at_start = rank_.device.allocated_bytes();
  trainer_.reset();
  rank_.communicator.reset_traffic();
  trainer_.step(pool_.features(0), pool_.targets(0));
  if (comm_bytes_ < 0) comm_bytes_ = static_cast<double>(rank_.communicator.traffic().payload_bytes);
  run.comm_bytes = comm_bytes_;
  run.loss_first = trainer_.stats().loss;
  warm_up();
  run.step_us = timed_steps(settings_.steps, &run);
  run.loss_last = trainer_.stats().loss;
  if (rank_.rank == 0 && !std::isfinite(run.loss_last))
    throw Error(Cause::non_finite,
                fmt::format("loss became {} within {} steps at global batch {}", run.loss_last,
                            settings_.warmup + settings_.steps, options_.plan.global_batch),
                "a smaller --learning-rate, or check the data for extreme values");
  run.accounted = accounted_steps();
  run.memory_peak_bytes = static_cast<double>(own_bytes_ + rank_.device.peak_allocated_bytes() - bytes_at_start);
  own_bytes_ += rank_.device.allocated_bytes() - bytes_at_start;  // workspace that the first run made and keeps
  return run;
}

RankTrace StudyCellRank::trace(int64_t first, int64_t end) {
  trainer_.step(pool_.features(0), pool_.targets(0));  // choices that a first step makes, where no run was before
  trainer_.reset();
  return trace_steps(rank_, trainer_, pool_, {first, end, options_.launch, options_.timeout_seconds}, trace_stamps_);
}

double StudyCellRank::probe(int steps) {
  trainer_.step(pool_.features(0), pool_.targets(0));
  return timed_steps(steps, nullptr);
}

}  // namespace amdahl
