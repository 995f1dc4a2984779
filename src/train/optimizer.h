// Optimizers over the flat parameter layout.
#pragma once

#include <memory>
#include <string_view>

#include "model/mlp.h"
#include "train/hyper.h"

namespace amdahl {

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  /// Zeroes the state.
  virtual void reset(Stream& stream) = 0;
  /// Updates floats [begin, end) of the layout from the model's gradients.
  virtual void update(Stream& stream, int64_t begin, int64_t end) = 0;
};

std::unique_ptr<Optimizer> make_optimizer(const Hyper& hyper, Device& device, Ops& ops, Mlp& model);

}  // namespace amdahl
