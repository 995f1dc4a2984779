#include "measure/study_cell.h"

#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <string_view>

#include "measure/packer.h"
#include "train/replicas.h"

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
                                         &RankRun::throttle_reasons,
                                         &RankRun::warmup_steps,
                                         &RankRun::warmup_us,
                                         &RankRun::warmup_drift_percent,
                                         &RankRun::warmup_settled,
                                         &RankRun::warmup_rehearsals};
constexpr double PartTimes::*kTimes[] = {&PartTimes::full,         &PartTimes::staged,         &PartTimes::local,
                                         &PartTimes::local_work,   &PartTimes::backward_work,  &PartTimes::forward_work,
                                         &PartTimes::launch_floor, &PartTimes::launch_kernels, &PartTimes::noise,
                                         &PartTimes::fused_update};

constexpr double HostLoad::*kLoads[] = {&HostLoad::busy_us, &HostLoad::stolen_us, &HostLoad::own_us,
                                        &HostLoad::waited_us};

// Numbers that fit into a double, for Packer.
int64_t host_number() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return static_cast<int64_t>(std::hash<std::string_view>()(name.data()) & 0xffffffffU);
}

std::string pack(const RankRun& run) {
  Packer packer;
  for (const auto member : kScalars) packer.number(run.*member);
  packer.number(static_cast<double>(run.host_load.process));
  packer.number(static_cast<double>(run.host_load.host));
  for (const auto member : kLoads) packer.number(run.host_load.load.*member);
  for (const auto member : kTimes) packer.number(run.parts.*member);
  packer.numbers(run.parts.communication.stalls);
  packer.numbers(run.parts.communication.collectives);
  return packer.bytes();
}

RankRun unpack(const std::string& bytes) {
  Unpacker unpacker(bytes);
  RankRun run;
  for (const auto member : kScalars) run.*member = unpacker.number();
  run.host_load.process = static_cast<int64_t>(unpacker.number());
  run.host_load.host = static_cast<int64_t>(unpacker.number());
  for (const auto member : kLoads) run.host_load.load.*member = unpacker.number();
  for (const auto member : kTimes) run.parts.*member = unpacker.number();
  run.parts.communication.stalls = unpacker.numbers();
  run.parts.communication.collectives = unpacker.numbers();
  return run;
}

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
      parts_(rank, trainer_, pool_, options.launch, options.timeout_seconds),
      own_bytes_(rank.device.allocated_bytes() - bytes_before_),
      given_timeout_seconds_(options.timeout_seconds),
      start_(rank.device.make_event()),
      end_(rank.device.make_event()) {}

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
    if (rank_.device.stop_asked()) trainer_.synchronize();  // throws, and drops the steps that are queued
    const size_t batch = static_cast<size_t>(i < lead ? i : i - lead) % pool_.size();
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
  if (on_host) run->host_load = {getpid(), host_number(), read_host_load() - load};
  const double elapsed_us = rank_.device.elapsed_us(*start_, *end_);
  if (run) run->energy_j = metered_energy_j(before.energy_j, rank_.device.health().energy_j, elapsed_us / 1e6);
  return elapsed_us / steps;
}

// All ranks must agree when it is over: the slowest one's times decide, and rank 0's clock.
WarmUp StudyCellRank::warm_up() {
  WarmUpRule rule(settings_.warmup);
  while (!rule.done()) {
    const int64_t block = rule.next_block();
    const double mine = timed_steps(kLeadSteps, static_cast<int>(block), nullptr);
    Packer packer;
    packer.number(mine);
    packer.number(rank_.device.health().sm_clock_mhz);
    const std::vector<std::string> all = rank_.communicator.exchange(packer.bytes(), deadline_of(options_));
    double slowest = 0;
    for (const std::string& bytes : all) slowest = std::max(slowest, Unpacker(bytes).number());
    Unpacker root(all.front());
    root.number();
    rule.add(block, slowest, root.number());
    longest_step_us_ = std::max(longest_step_us_, slowest);
  }
  return rule.result();
}

void StudyCellRank::prepare(int rehearsals) {
  constexpr double kRehearsalUs = 1e6;  // of timed steps, where a whole run takes longer
  measure(1);                           // makes graphs and chooses algorithms
  warmed_ = warm_up();
  const double step_us = warmed_->load_us / static_cast<double>(warmed_->steps);
  const auto steps = static_cast<int>(std::clamp(kRehearsalUs / step_us, 1.0, static_cast<double>(settings_.steps)));
  for (rehearsals_ = 0; rehearsals_ < rehearsals; ++rehearsals_) measure(steps);
}

void StudyCellRank::limit_waits(double collective_seconds, double host_seconds) {
  rank_.communicator.set_timeout(collective_seconds);
  trainer_.set_timeout(host_seconds);
  options_.timeout_seconds = host_seconds;
}

RankRun StudyCellRank::run() {
  if (options_.auto_timeout) {
    const AutoTimeouts limits = auto_timeouts(longest_step_us_ / 1e6, std::max(settings_.steps, settings_.warmup));
    limit_waits(limits.collective_seconds, limits.host_seconds);
  }
  RankRun run = measure(settings_.steps);
  if (options_.auto_timeout) limit_waits(given_timeout_seconds_, given_timeout_seconds_);  // other cells are cold
  if (!warmed_) return run;
  run.warmup_steps = static_cast<double>(warmed_->steps);
  run.warmup_us = warmed_->load_us;
  run.warmup_drift_percent = warmed_->drift_percent;
  run.warmup_settled = warmed_->settled;
  run.warmup_rehearsals = rehearsals_;
  warmed_.reset();
  return run;
}

RankRun StudyCellRank::measure(int steps) {
  RankRun run;
  rank_.device.reset_peak();
  const size_t bytes_at_start = rank_.device.allocated_bytes();
  trainer_.reset();
  rank_.communicator.reset_traffic();
  trainer_.step(pool_.features(0), pool_.targets(0));
  if (comm_bytes_ < 0) comm_bytes_ = static_cast<double>(rank_.communicator.traffic().payload_bytes);
  run.comm_bytes = comm_bytes_;
  run.loss_first = trainer_.stats().loss;
  const int lead = std::min(kLeadSteps, settings_.warmup);
  if (settings_.warmup > lead) timed_steps(0, settings_.warmup - lead, nullptr);
  run.step_us = timed_steps(lead, steps, &run);
  run.loss_last = trainer_.stats().loss;
  if (rank_.rank == 0 && !std::isfinite(run.loss_last))
    throw Error(Cause::non_finite,
                fmt::format("loss became {} within {} steps at global batch {}", run.loss_last,
                            settings_.warmup + settings_.steps, options_.plan.global_batch),
                "a smaller `learning_rate`, or check the data for extreme values");
  check_replicas(rank_, trainer_, options_, fmt::format("after {} steps", settings_.warmup + steps));
  run.parts = parts_.measure(run.step_us);  // leaves other parameters on each rank
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
  return timed_steps(0, steps, nullptr);
}

}  // namespace amdahl
