// What measurements share that compare a collective with one-sided communication.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "measure/onesided/bench.h"
#include "measure/sampling/rank_sampler.h"

namespace amdahl {

/// Collectives in symmetric memory with the default sizes. Collective over the ranks.
std::unique_ptr<Communicator> make_contest_communicator(RankContext& context, const OneSidedSettings& settings);

/// Microseconds of one call on the slowest rank, by sample. `time_us(times)`: of so many calls back to back on this
/// rank; they are repeated until a sample takes as long as the settings say. Collective over the ranks.
std::vector<double> sample_calls(RankSampler& sampler, const OneSidedSettings& settings,
                                 const std::function<double(int64_t times)>& time_us);

/// Of numbers between these ranks: emulated where they are partitions of one GPU.
Origin origin_of(const RankContext& context, const OneSidedSettings& settings);

}  // namespace amdahl
