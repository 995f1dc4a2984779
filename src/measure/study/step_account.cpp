#include "measure/study/step_account.h"

#include <algorithm>
#include <limits>

namespace amdahl {
namespace {

constexpr double AccountedStep::*kMeans[] = {&AccountedStep::step,
                                             &AccountedStep::forward,
                                             &AccountedStep::backward,
                                             &AccountedStep::compute,
                                             &AccountedStep::waiting,
                                             &AccountedStep::exposed_communication,
                                             &AccountedStep::launch_gaps,
                                             &AccountedStep::input,
                                             &AccountedStep::optimizer,
                                             &AccountedStep::launch_floor,
                                             &AccountedStep::dp_communication,
                                             &AccountedStep::tp_communication,
                                             &AccountedStep::pp_communication,
                                             &AccountedStep::bubble};

// The shortest time of each collective over the ranks.
std::vector<double> shortest_collectives(const std::vector<PartTimes>& times) {
  std::vector<double> shortest(times.front().communication.collectives.size(), std::numeric_limits<double>::infinity());
  for (const PartTimes& rank : times)
    for (size_t k = 0; k < shortest.size(); ++k) shortest[k] = std::min(shortest[k], rank.communication.collectives[k]);
  return shortest;
}

// Share of a rank's stalls in a stamped step that was waiting for other ranks; 0 without stalls: all is exposed
// communication.
double waiting_share(const StampedTimes& stamped, const std::vector<double>& shortest) {
  double stalled = 0, waiting = 0;
  for (size_t k = 0; k < shortest.size(); ++k) {
    const double stall = std::max(0.0, stamped.stalls[k]);
    stalled += stall;
    waiting += std::min(stall, stamped.collectives[k] - shortest[k]);
  }
  return stalled > 0 ? waiting / stalled : 0;
}

/// Moves sums of tensor parallelism from the passes, within which they ran, to communication.
void take_out_tensor(AccountedStep& part, double tensor) {
  part.tp_communication = std::min(tensor, part.compute);
  const double left = part.compute > 0 ? 1 - part.tp_communication / part.compute : 1;
  part.forward *= left;
  part.backward *= left;
  part.compute *= left;
  part.exposed_communication += part.tp_communication;
}

AccountedStep account_stages(const PartTimes& times, double slowest) {
  const StageParts& stages = times.stages;
  AccountedStep part;
  part.step = slowest;
  part.forward = stages.forward;
  part.backward = stages.backward;
  part.compute = stages.forward + stages.backward;
  part.optimizer = stages.updates;
  part.bubble = stages.bubble;
  part.waiting = stages.bubble + slowest - times.full;
  part.pp_communication = stages.transfers;
  part.dp_communication = stages.stalls;
  part.exposed_communication = stages.transfers + stages.stalls;
  part.launch_gaps = slowest - part.compute - part.optimizer - part.waiting - part.exposed_communication;
  if (part.launch_gaps < 0) {  // noise: stamped parts that overlap the step's ends
    part.compute += part.launch_gaps;
    part.backward += part.launch_gaps;
    part.launch_gaps = 0;
  }
  take_out_tensor(part, times.tensor);
  return part;
}

AccountedStep account_rank(const PartTimes& times, const std::vector<double>& shortest, double slowest) {
  if (times.has_stages > 0) return account_stages(times, slowest);
  const double staged = std::min(times.staged, times.full), local = std::min(times.local, staged);
  const double local_work = std::min(times.local_work, local);
  const double backward_work = std::min(times.backward_work, local_work);
  AccountedStep part;
  part.step = slowest;
  part.forward = std::min(times.forward_work, backward_work);
  part.backward = backward_work - part.forward;
  part.compute = backward_work;
  part.optimizer = local_work - backward_work;
  part.launch_gaps = local - local_work;
  const double waiting = (staged - local) * waiting_share(times.communication, shortest);
  part.exposed_communication = staged - local - waiting;
  part.waiting = waiting + slowest - times.full;
  part.input = times.full - staged;
  part.launch_floor = times.launch_floor;
  part.dp_communication = part.exposed_communication;
  take_out_tensor(part, times.tensor);
  return part;
}

}  // namespace

AccountedStep account_step(const std::vector<PartTimes>& times) {
  const std::vector<double> shortest = shortest_collectives(times);
  double slowest = 0;
  AccountedStep mean;
  for (const PartTimes& rank : times) {
    slowest = std::max(slowest, rank.full);
    mean.launch_kernels = std::max(mean.launch_kernels, rank.launch_kernels);
    mean.noise = std::max(mean.noise, rank.noise);
    mean.fused_update = std::max(mean.fused_update, rank.fused_update);
  }
  for (const PartTimes& rank : times) {
    const AccountedStep part = account_rank(rank, shortest, slowest);
    for (const auto member : kMeans) mean.*member += part.*member / static_cast<double>(times.size());
  }
  for (const double collective : shortest) mean.total_communication += collective;
  return mean;
}

std::vector<Series> account_series(const AccountedStep& account) {
  return {{"account_step", "us", {account.step}},
          {"forward", "us", {account.forward}},
          {"backward", "us", {account.backward}},
          {"compute", "us", {account.compute}},
          {"exposed_communication", "us", {account.exposed_communication}},
          {"waiting", "us", {account.waiting}},
          {"launch_gaps", "us", {account.launch_gaps}},
          {"input", "us", {account.input}},
          {"optimizer", "us", {account.optimizer}},
          {"total_communication", "us", {account.total_communication}},
          {"account_noise", "us", {account.noise}}};
}

}  // namespace amdahl
