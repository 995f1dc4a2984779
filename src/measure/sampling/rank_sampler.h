// Sampling on several ranks: what they must agree on before, between and after samples.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "measure/sampling/warm_up.h"

namespace amdahl {

/// What is warmed up: work in blocks of steps.
struct WarmUpWork {
  int64_t least_steps = 0;                       // before anything is judged
  int64_t multiple = 1;                          // blocks have a multiple of so many steps: those of one sample
  std::function<double(int64_t steps)> step_us;  // runs a block; us of one step on this rank
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

/// The same on one rank alone.
WarmUp warm_up_alone(const WarmUpWork& work);

/// Every rank's text, by rank, as "device 2: ..." of the first that has one; empty when none has.
std::string first_error(Communicator& communicator, const std::string& own, Deadline deadline);

/// Calls `allocate`; what an Error{out_of_memory} of any rank says, on all ranks, empty when all have room. Ranks ask
/// this before any of them waits for another in a collective.
std::string error_of_allocating(Communicator& communicator, Deadline deadline, const std::function<void()>& allocate);

}  // namespace amdahl
