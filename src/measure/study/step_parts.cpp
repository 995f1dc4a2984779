#include "measure/study/step_parts.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "comm/communicator.h"
#include "measure/sampling/rank_sampler.h"
#include "stats/summary.h"

namespace amdahl {
namespace {

constexpr int kRounds = 3;
constexpr double kBlockUs = 5000;  // target duration of a block
constexpr int kFewestSteps = 4, kMostSteps = 50;
constexpr int kFewestLongSteps = 2, kLeadLongSteps = 1;  // of steps longer than a block; a brief timer has as few

double half_range(const std::vector<double>& times) {
  const auto [least, most] = std::minmax_element(times.begin(), times.end());
  return (*most - *least) / 2;
}

}  // namespace

PartTimer::PartTimer(Trainer& trainer, StepProbes& probes, BatchPool& pool, LaunchMode launch, double timeout_seconds,
                     bool brief)
    : trainer_(trainer),
      parts_(trainer.parts()),
      rank_(parts_.rank),
      probes_(probes),
      pool_(pool),
      prefetches_(parts_.options.plan.input == static_cast<int64_t>(InputMode::prefetch)),
      launch_(launch),
      work_(rank_.device.supports_graphs().ok ? LaunchMode::graph : launch),
      timeout_seconds_(timeout_seconds),
      brief_(brief),
      rounds_(brief ? 1 : kRounds),
      start_(rank_.device.make_event()),
      end_(rank_.device.make_event()) {}

// Runs each part eagerly once, so that its algorithms are chosen before it is captured.
void PartTimer::prepare() {
  if (prepared_) return;
  for (const StepWork& work : {kForwardStep, kBackwardStep, local_step(parts_)})
    trainer_.launch(pool_.place(0).features, pool_.place(0).targets, work, LaunchMode::eager);
  trainer_.synchronize();
  prepared_ = true;
}

PartTimer::Block PartTimer::timed(const StepWork& work, LaunchMode mode, int steps, bool with_input) {
  Stream& stream = trainer_.compute_stream();
  const auto step = [&](int i) {
    rank_.device.throw_if_stopped();
    const auto number = static_cast<size_t>(i);
    const StepBatch batch = with_input ? pool_.take(number % pool_.size()) : pool_.place(number % pool_.num_places());
    trainer_.launch(batch.features, batch.targets, work, mode);
    if (with_input) pool_.done();
  };
  // Captures the graphs now rather than at their first launch, which would be timed.
  if (mode == LaunchMode::graph)
    for (size_t i = 0; i < pool_.num_places(); ++i)
      trainer_.capture(pool_.place(i).features, pool_.place(i).targets, work);
  pool_.wait_for_places();
  trainer_.synchronize();
  rank_.communicator.barrier(Deadline::after_seconds(timeout_seconds_));
  const double busy_before = stream.busy_us();
  // Busy time covers all steps, so the wall time compared with it must as well: no lead steps.
  const int lead = busy_before < 0 ? lead_steps_ : 0;
  for (int i = 0; i < lead; ++i) step(i);
  stream.stamp(*start_);
  for (int i = 0; i < steps; ++i) step(lead + i);
  stream.stamp(*end_);
  trainer_.synchronize();
  const double busy = stream.busy_us() - busy_before;
  return {rank_.device.elapsed_us(*start_, *end_) / steps, busy_before < 0 ? -1 : busy / steps};
}

double PartTimer::timed_floor(int steps) {
  Stream& stream = trainer_.compute_stream();
  for (int i = 0; i < lead_steps_; ++i) empty_step(trainer_, probes_);
  stream.stamp(*start_);
  for (int i = 0; i < steps; ++i) empty_step(trainer_, probes_);
  stream.stamp(*end_);
  trainer_.synchronize();
  return rank_.device.elapsed_us(*start_, *end_) / steps;
}

PartTimes PartTimer::one_round(int steps) {
  const StepWork local_work = local_step(parts_);
  const bool sends = local_work != StepWork{};
  PartTimes times;
  times.forward_work = timed(kForwardStep, work_, steps).work_us();
  times.backward_work = timed(kBackwardStep, work_, steps).work_us();
  const Block local = timed(local_work, launch_, steps);
  times.local = times.full = times.staged = local.wall_us;
  times.local_work = work_ == launch_ ? local.work_us() : timed(local_work, work_, steps).work_us();
  if (sends || prefetches_) times.full = timed({}, launch_, steps, prefetches_).wall_us;
  if (sends && parts_.row.data_on_root)
    times.staged = timed(kStagedStep, launch_, steps).wall_us;
  else if (sends)
    times.staged = prefetches_ ? timed({}, launch_, steps).wall_us : times.full;
  if (trainer_.graph_nodes(local_work) > 0) times.launch_floor = timed_floor(steps);
  return times;
}

double PartTimer::median_us(const StepWork& work, int steps, double* noise) {
  std::vector<double> times;
  for (int round = 0; round < rounds_; ++round) times.push_back(timed(work, launch_, steps).wall_us);
  if (noise) *noise = half_range(times);
  return median_of(times);
}

double PartTimer::tensor_us(int steps, double full_us) {
  if (parts_.options.plan.mesh.tp == 1) return 0;
  return std::max(0.0, full_us - median_us({.tensor_sums = false}, steps));
}

// The slowest rank's, because a round trip ends on the rank of the first stage; replicas share the links.
double PartTimer::message_us(int steps) {
  const StepBatch batch = pool_.place(0);
  trainer_.launch(batch.features, batch.targets, kMessagesStep, LaunchMode::eager);
  const double slowest = RankSampler(rank_.communicator, timeout_seconds_).slowest(median_us(kMessagesStep, steps));
  return slowest / static_cast<double>(messages_in_sequence(parts_));
}

PartTimes PartTimer::measure_stages(int steps) {
  PartTimes times;
  times.has_stages = 1;
  times.full = median_us({}, steps, &times.noise);
  times.staged = times.local = times.local_work = times.full;
  const double message = message_us(steps);
  const Deadline deadline = Deadline::after_seconds(timeout_seconds_);
  pool_.wait_for_places();
  const StepBatch batch = pool_.place(0);
  stamped_stages(trainer_, batch.features, batch.targets, probes_);  // creates the events
  std::vector<StageParts> stamped;
  for (int step = 0; step < rounds_; ++step) {
    rank_.communicator.barrier(deadline);
    stamped.push_back(divide_stages(rank_, parts_.options.plan,
                                    stamped_stages(trainer_, batch.features, batch.targets, probes_), times.full,
                                    message, deadline));
  }
  times.stages = mean_of(stamped);
  times.tensor = std::min(tensor_us(steps, times.full), times.stages.forward + times.stages.backward);
  return times;
}

void PartTimer::warm_up(double step_us) {
  const int rounds = std::exchange(rounds_, 1);
  measure(step_us);
  rounds_ = rounds;
}

PartTimes PartTimer::measure(double step_us) {
  const bool has_stages = parts_.divided.stages() != nullptr;
  pool_.wait_for_places();
  if (!has_stages) prepare();
  step_us = RankSampler(rank_.communicator, timeout_seconds_).slowest(step_us);  // the same steps on all ranks
  const auto period = static_cast<int>(parts_.sync->period());
  const bool is_long = step_us > kBlockUs;
  lead_steps_ = is_long ? kLeadLongSteps : kLeadSteps;
  const int fewest = brief_ || is_long ? kFewestLongSteps : kFewestSteps;
  int steps = static_cast<int>(std::clamp<double>(std::ceil(kBlockUs / std::max(step_us, 1.0)), fewest, kMostSteps));
  steps = (steps + period - 1) / period * period;
  if (has_stages) return measure_stages(steps);
  std::vector<PartTimes> rounds;
  for (int round = 0; round < rounds_; ++round) rounds.push_back(one_round(steps));
  const auto of_rounds = [&](double PartTimes::*part) {
    std::vector<double> all;
    for (const PartTimes& round : rounds) all.push_back(round.*part);
    return all;
  };
  PartTimes times;
  for (double PartTimes::*part : {&PartTimes::full, &PartTimes::staged, &PartTimes::local, &PartTimes::local_work,
                                  &PartTimes::backward_work, &PartTimes::forward_work, &PartTimes::launch_floor})
    times.*part = median_of(of_rounds(part));
  times.noise = half_range(of_rounds(&PartTimes::full));
  times.launch_kernels = static_cast<double>(trainer_.graph_nodes(local_step(parts_)));
  times.fused_update = parts_.sync->update_in_backward() != nullptr;
  if (work_ == launch_) times.tensor = tensor_us(steps, times.full);
  if (local_step(parts_) == StepWork{}) return times;
  pool_.wait_for_places();
  const StepBatch batch = pool_.place(0);
  stamped_times(trainer_, batch.features, batch.targets, probes_);  // creates the events, or captures the graph
  rank_.communicator.barrier(Deadline::after_seconds(timeout_seconds_));
  for (int step = 0; step < period; ++step) {
    const StampedTimes one = stamped_times(trainer_, batch.features, batch.targets, probes_);
    for (auto member : {&StampedTimes::stalls, &StampedTimes::collectives}) {
      std::vector<double>& mean = times.communication.*member;
      mean.resize(std::max(mean.size(), (one.*member).size()));
      for (size_t i = 0; i < (one.*member).size(); ++i) mean[i] += (one.*member)[i] / period;
    }
  }
  return times;
}

}  // namespace amdahl
