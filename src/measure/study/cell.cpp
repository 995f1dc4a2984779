#include "measure/study/cell.h"

#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <string_view>
#include <utility>

#include "measure/sampling/rank_results.h"
#include "measure/sampling/rank_sampler.h"
#include "train/replicas.h"
#include "train/trainer_state.h"

namespace amdahl {

template <class Archive>
void visit_fields(Archive& archive, HostLoad& load) {
  archive(load.busy_us, load.stolen_us, load.own_us, load.waited_us, load.throttled_us);
}

template <class Archive>
void visit_fields(Archive& archive, ProcessLoad& load) {
  archive(load.process, load.host, load.load);
}

template <class Archive>
void visit_fields(Archive& archive, StageParts& parts) {
  archive(parts.forward, parts.backward, parts.bubble, parts.transfers, parts.stalls, parts.updates,
          parts.simulated_bubble, parts.action_bubble, parts.message, parts.message_bubble);
}

template <class Archive>
void visit_fields(Archive& archive, PartTimes& times) {
  archive(times.full, times.staged, times.local, times.local_work, times.backward_work, times.forward_work,
          times.launch_floor, times.launch_kernels, times.noise, times.fused_update, times.communication.stalls,
          times.communication.collectives, times.tensor, times.has_stages, times.stages);
}

template <class Archive>
void visit_fields(Archive& archive, RankRun& run) {
  archive(run.step_us, run.loss_first, run.loss_last, run.memory_peak_bytes, run.utilisation_percent, run.comm_bytes,
          run.clock_before_mhz, run.clock_after_mhz, run.temperature_c, run.power_w, run.energy_j, run.throttle_reasons,
          run.warmup_steps, run.warmup_us, run.warmup_drift_percent, run.warmup_settled, run.warmup_rehearsals,
          run.steps_behind, run.loss_scale, run.skipped_steps, run.host_load, run.parts);
}

namespace {

int64_t host_number() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return static_cast<int64_t>(std::hash<std::string_view>()(name.data()) & 0xffffffffU);
}

Deadline deadline_of(const TrainerOptions& options) { return Deadline::after_seconds(options.timeout_seconds); }

}  // namespace

double metered_energy_j(double before_j, double after_j, double seconds) {
  constexpr double kShortest = 2;
  return before_j >= 0 && after_j > before_j && seconds >= kShortest ? after_j - before_j : -1;
}

std::vector<RankRun> gather_runs(Communicator& communicator, const RankRun& mine, Deadline deadline) {
  return exchange_results(communicator, mine, deadline);
}

StudyCellRank::StudyCellRank(const RankContext& rank, const TrainerOptions& options, const Dataset& data,
                             const StudySettings& settings)
    : rank_(rank),
      options_(options),
      settings_(settings),
      bytes_before_(rank.device.allocated_bytes()),
      probes_(rank.device),
      trainer_(rank, options),
      pool_(trainer_, rank.device, data, options.plan, settings.pool_batches, deadline_of(options)),
      parts_(trainer_, probes_, pool_, options.launch, options.timeout_seconds, settings.brief),
      own_bytes_(rank.device.allocated_bytes() - bytes_before_),
      given_timeout_seconds_(options.timeout_seconds),
      start_(rank.device.make_event()),
      end_(rank.device.make_event()) {}

void StudyCellRank::one_step(size_t batch) {
  const StepBatch input = pool_.take(batch);
  trainer_.step(input.features, input.targets);
  pool_.done();
}

double StudyCellRank::timed_steps(int lead, int steps, RankRun* run) {
  trainer_.synchronize();
  rank_.communicator.barrier(deadline_of(options_));
  const bool on_host = run && rank_.device.backend() == BackendKind::cpu;
  const HostLoad load = on_host ? read_host_load() : HostLoad{};
  DeviceHealth before;
  if (run) {
    before = rank_.device.health();
    run->clock_before_mhz = before.sm_clock_mhz;
  }
  Stream& stream = trainer_.compute_stream();
  for (int i = 0; i < lead + steps; ++i) {
    if (i == lead) stream.stamp(*start_);
    if (rank_.device.stop_asked()) trainer_.synchronize();  // throws, and drops the queued steps
    const size_t batch = static_cast<size_t>(i < lead ? i : i - lead) % pool_.size();
    one_step(batch);
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
  if (on_host) run->host_load = {getpid(), host_number(), read_host_load() - load};
  const double elapsed_us = rank_.device.elapsed_us(*start_, *end_);
  if (run) run->energy_j = metered_energy_j(before.energy_j, rank_.device.health().energy_j, elapsed_us / 1e6);
  return elapsed_us / steps;
}

WarmUp StudyCellRank::warm_up() {
  RankSampler sampler(rank_.communicator, options_.timeout_seconds);
  const auto block = [&](int64_t steps) {
    const double step_us = timed_steps(kLeadSteps, static_cast<int>(steps), nullptr);
    longest_step_us_ = std::max(longest_step_us_, step_us);
    return step_us;
  };
  const WarmUp warm = sampler.warm_up({settings_.warmup, 1, block, [&] { return rank_.device.health().sm_clock_mhz; }});
  longest_step_us_ = sampler.slowest(longest_step_us_);
  return warm;
}

void StudyCellRank::prepare(int discarded_runs) {
  constexpr double kDiscardedUs = 1e6;                               // limit of the timed steps of a discarded run
  measure(1, settings_.brief ? Account::none : Account::discarded);  // captures graphs and chooses algorithms
  if (settings_.brief) return;
  warmed_ = warm_up();
  const double step_us = warmed_->load_us / static_cast<double>(warmed_->steps);
  const auto steps = static_cast<int>(std::clamp(kDiscardedUs / step_us, 1.0, static_cast<double>(settings_.steps)));
  for (discarded_ = 0; discarded_ < discarded_runs; ++discarded_) measure(steps, Account::none);
}

void StudyCellRank::set_timeouts(double collective_seconds, double host_seconds) {
  rank_.communicator.set_timeout(collective_seconds);
  trainer_.set_timeout(host_seconds);
  options_.timeout_seconds = host_seconds;
}

bool StudyCellRank::accounts() {
  constexpr int kAccountedRuns = 10;
  const int runs = std::max(1, settings_.runs_end() - settings_.first_run);
  const int stride = settings_.brief ? runs : (runs + kAccountedRuns - 1) / kAccountedRuns;
  return num_runs_++ % stride == 0;
}

RankRun StudyCellRank::run() {
  if (options_.auto_timeout) {
    const AutoTimeouts limits = auto_timeouts(longest_step_us_ / 1e6, std::max(settings_.steps, settings_.warmup));
    set_timeouts(limits.collective_seconds, limits.host_seconds);
  }
  RankRun run = measure(settings_.steps, accounts() ? Account::measured : Account::none);
  if (options_.auto_timeout)
    set_timeouts(given_timeout_seconds_, given_timeout_seconds_);  // other cells are still cold
  if (!warmed_) return run;
  run.warmup_steps = static_cast<double>(warmed_->steps);
  run.warmup_us = warmed_->load_us;
  run.warmup_drift_percent = warmed_->drift_percent;
  run.warmup_settled = warmed_->settled;
  run.warmup_rehearsals = discarded_;
  warmed_.reset();
  return run;
}

RankRun StudyCellRank::measure(int steps, Account account) {
  RankRun run;
  rank_.device.reset_peak();
  const size_t bytes_at_start = rank_.device.allocated_bytes();
  trainer_.reset();
  trainer_.parts().divided.take_traffic();
  one_step(0);
  run.loss_first = trainer_.stats().loss;
  if (comm_bytes_ < 0) {
    const int64_t period = trainer_.parts().sync->period();
    for (int64_t step = 1; step < period; ++step) one_step(static_cast<size_t>(step) % pool_.size());
    trainer_.synchronize();
    comm_bytes_ = static_cast<double>(trainer_.parts().divided.take_traffic()) / static_cast<double>(period);
  }
  run.comm_bytes = comm_bytes_;
  const int lead = std::min(kLeadSteps, settings_.warmup);
  if (settings_.warmup > lead) timed_steps(0, settings_.warmup - lead, nullptr);
  run.step_us = timed_steps(lead, steps, &run);
  run.loss_last = trainer_.stats().loss;
  run.steps_behind = static_cast<double>(trainer_.parts().sync->most_steps_behind());
  trainer_.parts().finish_updates();
  if (const auto scale = read_loss_scale(trainer_.parts())) {
    run.loss_scale = static_cast<double>(scale->scale);
    run.skipped_steps = static_cast<double>(scale->skipped_steps);
  }
  if (rank_.rank == 0 && !std::isfinite(run.loss_last))
    throw Error(Cause::non_finite,
                fmt::format("loss became {} within {} steps at global batch {}", run.loss_last,
                            settings_.warmup + settings_.steps, options_.plan.global_batch),
                "a smaller `learning_rate`, or check the data for extreme values");
  check_replicas(trainer_.parts(), options_.timeout_seconds, fmt::format("after {} steps", settings_.warmup + steps));
  // Both leave different parameters on each rank.
  if (account == Account::measured) run.parts = parts_.measure(run.step_us);
  if (account == Account::discarded) parts_.warm_up(run.step_us);
  run.memory_peak_bytes = static_cast<double>(own_bytes_ + rank_.device.peak_allocated_bytes() - bytes_at_start);
  own_bytes_ += rank_.device.allocated_bytes() - bytes_at_start;  // workspace that the first run allocated and keeps
  return run;
}

RankTrace StudyCellRank::trace(int64_t first, int64_t end) {
  one_step(0);  // lets Ops choose algorithms if no run has
  trainer_.reset();
  return trace_steps(rank_, trainer_, pool_, {first, end, options_.launch, options_.timeout_seconds}, trace_stamps_);
}

}  // namespace amdahl
