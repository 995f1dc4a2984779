// Which layers each pipeline stage holds.
#pragma once

#include <vector>

#include "amdahl/model_spec.h"
#include "model/parameter_layout.h"

namespace amdahl {

/// Operations of each layer in one step per row of the batch: forward, weight gradient, and input gradient above the
/// first layer.
std::vector<double> layer_flops(const ModelSpec& model);

/// Cuts layers, of which each takes `work[i]` (any unit, at least 0), into `num_stages` runs of at least one layer so
/// that the most loaded run has as little work as possible. Error{usage} where there are fewer layers than stages.
std::vector<LayerRange> balance_stages(const std::vector<double>& work, int num_stages);

}  // namespace amdahl
