// A model's parameters by name.
#pragma once

#include <vector>

#include "amdahl/model_spec.h"
#include "amdahl/tensor.h"

namespace amdahl {

/// `parameters` are in layout order, as Trainer::parameters returns them. The result is ordered by layer, weight before
/// bias.
std::vector<NamedArray> name_weights(const ModelSpec& model, const std::vector<float>& parameters);

}  // namespace amdahl
