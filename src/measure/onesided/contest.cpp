#include "measure/onesided/contest.h"

#include "symmetric/symmetric_collectives.h"

namespace amdahl {

std::unique_ptr<Communicator> make_contest_communicator(RankContext& context, const OneSidedSettings& settings) {
  const Deadline deadline = Deadline::after_seconds(settings.timeout_seconds);
  return make_symmetric_communicator(context.device, context.communicator.split(0, context.rank, deadline),
                                     RankGroup::first(context.world_size, context.rank), settings.timeout_seconds,
                                     default_symmetric_options(context.device.backend()));
}

std::vector<double> sample_calls(RankSampler& sampler, const OneSidedSettings& settings,
                                 const std::function<double(int64_t times)>& time_us) {
  constexpr int64_t kMostTimes = 4096;
  const auto slowest = [&](int64_t times) { return sampler.slowest(time_us(times)); };
  int64_t times = 1;
  for (double us = slowest(times); us < settings.least_sample_us && times < kMostTimes; us = slowest(times)) times *= 2;
  std::vector<double> samples;
  for (int i = 0; i < settings.samples; ++i) samples.push_back(slowest(times) / static_cast<double>(times));
  return samples;
}

Origin origin_of(const RankContext& context, const OneSidedSettings& settings) {
  return context.device.backend() == BackendKind::cuda && settings.ranks == "partitions" ? Origin::emulated
                                                                                         : Origin::measured;
}

}  // namespace amdahl
