// A model's parameters by name.
#pragma once

#include <vector>

#include "amdahl/model_spec.h"
#include "amdahl/tensor.h"

namespace amdahl {

/// `parameters` in layout order, as Trainer::parameters gives them. First layer first, its weight before its bias.
std::vector<NamedArray> name_weights(const ModelSpec& model, const std::vector<float>& parameters);

}  // namespace amdahl
