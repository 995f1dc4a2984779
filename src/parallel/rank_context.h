// RankContext: what one rank of a parallel job computes and communicates with.
#pragma once

#include "ops/ops.h"

namespace amdahl {

class Communicator;
class Device;

/// The parts must outlive everything that is built from them.
struct RankContext {
  int rank = 0;
  int world_size = 1;
  Device& device;
  OpsOnDemand ops;
  Communicator& communicator;
};

}  // namespace amdahl
