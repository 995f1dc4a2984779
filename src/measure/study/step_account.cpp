#include "measure/study/step_account.h"

#include <algorithm>
#include <limits>

namespace amdahl {
namespace {

constexpr double AccountedStep::*kMeans[] = {&AccountedStep::step,        &AccountedStep::forward,
                                             &AccountedStep::backward,    &AccountedStep::compute,
                                             &AccountedStep::waiting,     &AccountedStep::exposed_communication,
                                             &AccountedStep::launch_gaps, &AccountedStep::input,
                                             &AccountedStep::optimizer,   &AccountedStep::launch_floor};

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

AccountedStep account_rank(const PartTimes& times, const std::vector<double>& shortest, double slowest) {
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

}  // namespace amdahl
