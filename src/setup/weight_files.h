// Weights that a training begins with, from files of safetensors.
#pragma once

#include <string>
#include <vector>

#include "amdahl/plan.h"

namespace amdahl {

/// Parameters in layout order from `path`: FILE.safetensors, an index FILE.safetensors.index.json of several, or a
/// folder with model.safetensors or its index. Names are own ones (layers.0.weight) or those of transformers; elements
/// are F32, F16 or BF16; tensors of other names are ignored. Error{usage} for a path without weights,
/// Error{data_corrupt} for a shard or a tensor that is missing or has another shape.
std::vector<float> read_weights(const ModelSpec& model, const std::string& path);

}  // namespace amdahl
