// Which layers each pipeline stage holds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "amdahl/plan.h"

namespace amdahl {

/// Layers [first, last) of a model.
struct LayerRange {
  size_t first = 0, last = SIZE_MAX;  // clamped to the model's layers
  bool operator==(const LayerRange&) const = default;
};

/// Floating-point operations of each layer in one step, per row of the batch: forward, weight gradient, and input
/// gradient (not for the first layer).
std::vector<double> layer_flops(const ModelSpec& model);

/// Divides the layers into `num_stages` contiguous runs of at least one layer so that the work of the most loaded run
/// is minimal. `work[i]` is the work of layer i in any unit, at least 0. Error{usage} when there are fewer layers than
/// stages.
std::vector<LayerRange> balance_stages(const std::vector<double>& work, int num_stages);

/// The layers of each of a plan's `num_stages` stages. Stages of equal numbers of transformer blocks
/// (StageSplit::blocks in a model with blocks) have what is below the first block in the first stage, and what is above
/// the last block in the last one.
Feasibility stages_feasible(const ModelSpec& model, int num_stages, StageSplit split);
/// Throws Error{usage} where that says no.
std::vector<LayerRange> stage_layers(const ModelSpec& model, int num_stages, StageSplit split);

}  // namespace amdahl
