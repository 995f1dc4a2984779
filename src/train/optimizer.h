// Optimizers over the flat parameter layout.
#pragma once

#include <memory>
#include <vector>

#include "parallel/data/strategy.h"
#include "train/hyper.h"

namespace amdahl {

class Optimizer : public RangeOptimizer {
 public:
  /// Zeroes the state.
  virtual void reset(Stream& stream) = 0;
};

/// Holds state only for the `owned` ranges of the layout, which must be ascending and disjoint.
std::unique_ptr<Optimizer> make_optimizer(const Hyper& hyper, Device& device, Ops& ops, Model& model,
                                          const std::vector<FloatRange>& owned);
/// Number of state floats per parameter.
int num_state_arrays(const Hyper& hyper);

}  // namespace amdahl
