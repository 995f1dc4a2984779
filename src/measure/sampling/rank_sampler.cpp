#include "measure/sampling/rank_sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "measure/sampling/rank_results.h"

namespace amdahl {
namespace {

/// A block's time and the clock after it, of one rank or agreed on by all.
struct BlockTime {
  double step_us = 0, clock_mhz = -1;
};

template <class Archive>
void visit_fields(Archive& archive, BlockTime& block) {
  archive(block.step_us, block.clock_mhz);
}

template <class Agree>
WarmUp warm_up_until_stable(const WarmUpWork& work, const Agree& agree) {
  WarmUpRule rule(work.least_steps);
  while (!rule.done()) {
    const int64_t steps = (rule.next_block() + work.multiple - 1) / work.multiple * work.multiple;
    BlockTime own{work.step_us(steps), -1};
    own.clock_mhz = work.clock_mhz ? work.clock_mhz() : -1;
    const BlockTime agreed = agree(own);
    rule.add(steps, agreed.step_us, agreed.clock_mhz);
  }
  return rule.result();
}

}  // namespace

std::vector<double> RankSampler::all(double us) {
  return exchange_results(communicator_, us, Deadline::after_seconds(timeout_seconds_));
}

double RankSampler::slowest(double us) {
  const std::vector<double> times = all(us);
  return *std::max_element(times.begin(), times.end());
}

WarmUp RankSampler::warm_up(const WarmUpWork& work) {
  return warm_up_until_stable(work, [&](const BlockTime& own) {
    const auto ranks = exchange_results(communicator_, own, Deadline::after_seconds(timeout_seconds_));
    BlockTime agreed = ranks.front();
    for (const BlockTime& rank : ranks) agreed.step_us = std::max(agreed.step_us, rank.step_us);
    return agreed;
  });
}

std::function<double(int64_t)> block_of_samples(int64_t steps_per_sample, std::function<double()> sample_us) {
  return [steps_per_sample, sample_us = std::move(sample_us)](int64_t steps) {
    const int64_t samples = steps / steps_per_sample;
    double sum = 0;
    for (int64_t i = 0; i < samples; ++i) sum += sample_us();
    return sum / static_cast<double>(samples);
  };
}

WarmUp warm_up_alone(const WarmUpWork& work) {
  return warm_up_until_stable(work, [](const BlockTime& own) { return own; });
}

std::string first_error(Communicator& communicator, const std::string& own, Deadline deadline) {
  const std::vector<std::string> all = communicator.exchange(own, deadline);
  for (size_t rank = 0; rank < all.size(); ++rank)
    if (!all[rank].empty()) return fmt::format("device {}: {}", rank, all[rank]);
  return {};
}

std::string error_of_allocating(Communicator& communicator, Deadline deadline, const std::function<void()>& allocate) {
  std::string own;
  try {
    allocate();
  } catch (const Error& error) {
    if (error.cause() != Cause::out_of_memory) throw;
    own = error.what();
  }
  return first_error(communicator, own, deadline);
}

}  // namespace amdahl
