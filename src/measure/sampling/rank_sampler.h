// Sampling on several ranks: the values that they must agree on before, between and after samples.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "measure/sampling/warm_up.h"

namespace amdahl {

/// The work of a warm-up, run in blocks of steps.
struct WarmUpWork {
  int64_t least_steps = 0;                       // before stability is evaluated
  int64_t multiple = 1;                          // the steps of a block are a multiple of this: the steps of one sample
  std::function<double(int64_t steps)> step_us;  // runs a block and returns the us per step on this rank
  std::function<double()> clock_mhz;             // of this rank's device; negative when unknown
};

/// Ranks that measure together. All functions are collective. One per rank, not thread-safe.
class RankSampler {
 public:
  RankSampler(Communicator& communicator, double timeout_seconds)
      : communicator_(communicator), timeout_seconds_(timeout_seconds) {}

  /// The slowest rank's time, on all ranks.
  double slowest(double us);
  /// Every rank's time, by rank.
  std::vector<double> all(double us);
  /// Blocks until WarmUpRule is satisfied. The slowest rank's times and rank 0's clock decide.
  WarmUp warm_up(const WarmUpWork& work);

 private:
  Communicator& communicator_;
  double timeout_seconds_;
};

/// A block for WarmUpWork::step_us made of samples of `steps_per_sample` steps; `sample_us` takes one sample and
/// returns the us per step.
std::function<double(int64_t steps)> block_of_samples(int64_t steps_per_sample, std::function<double()> sample_us);

/// The warm-up of a single rank.
WarmUp warm_up_alone(const WarmUpWork& work);

/// The first non-empty text by rank, as "device 2: ..."; empty when no rank has one. Collective.
std::string first_error(Communicator& communicator, const std::string& own, Deadline deadline);

/// Calls `allocate` on every rank and returns on all ranks the message of an Error{out_of_memory} of any rank, or an
/// empty string. To be called before any rank waits for another in a collective.
std::string error_of_allocating(Communicator& communicator, Deadline deadline, const std::function<void()>& allocate);

}  // namespace amdahl
