// Which layers each pipeline stage holds.
#pragma once

#include <vector>

#include "amdahl/model_spec.h"
#include "model/parameter_layout.h"

namespace amdahl {

/// Floating-point operations of each layer in one step, per row of the batch: forward, weight gradient, and input
/// gradient (not for the first layer).
std::vector<double> layer_flops(const ModelSpec& model);

/// Divides the layers into `num_stages` contiguous runs of at least one layer so that the work of the most loaded run
/// is minimal. `work[i]` is the work of layer i in any unit, at least 0. Error{usage} when there are fewer layers than
/// stages.
std::vector<LayerRange> balance_stages(const std::vector<double>& work, int num_stages);

}  // namespace amdahl
