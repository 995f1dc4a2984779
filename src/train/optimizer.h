// Optimizers over the flat parameter layout.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "parallel/data/strategy.h"
#include "train/trainer_options.h"

namespace amdahl {

class Optimizer : public RangeOptimizer {
 public:
  /// Zeroes the state.
  virtual void reset(Stream& stream) = 0;
  /// Called before the first work of a step: sets the learning rate where it changes from step to step.
  virtual void begin_step(Stream& stream) = 0;
  /// Device arrays of state, each with a float for every owned parameter, in the order of the owned ranges. Adam: first
  /// and second moments; SGD: velocities.
  std::vector<float*> state() override = 0;
  /// From now on updates add to these sums on the device, for the parameters and for each array of state (ChangeSums).
  /// Behind them there is room for as many again.
  virtual uint32_t* sum_changes() = 0;
};

/// Holds state only for the `owned` ranges of the layout, which must be ascending and disjoint. `decaying`: ranges that
/// adamw's weight decay acts on, from and to multiples of kDecayLine; empty: all parameters.
std::unique_ptr<Optimizer> make_optimizer(const Hyper& hyper, Device& device, Ops& ops, Model& model,
                                          const std::vector<FloatRange>& owned,
                                          const std::vector<FloatRange>& decaying = {});
/// The parameters that weight decay acts on: tensors of at least two dimensions (ParameterSpec::decays).
std::vector<FloatRange> decaying_ranges(const ParameterLayout& layout);
/// Number of state floats per parameter.
int num_state_arrays(const Hyper& hyper);
/// Name of a state array, for files: "adam.m".
std::string state_name(const Hyper& hyper, int array);

}  // namespace amdahl
