// A model's parameters by name.
#pragma once

#include <string>
#include <vector>

#include "amdahl/plan.h"
#include "amdahl/tensor.h"

namespace amdahl {

/// A parameter tensor of a model and its place in the layout.
struct WeightRange {
  std::string name;
  std::vector<int64_t> shape;
  int64_t begin = 0;  // floats of the layout
  int64_t floats() const;
};

/// The tensors of a model, ordered by layer, weight before bias.
std::vector<WeightRange> weight_ranges(const ModelSpec& model);

/// `parameters` are in layout order, as Trainer::parameters returns them. The result is ordered as weight_ranges.
std::vector<NamedArray> name_weights(const ModelSpec& model, const std::vector<float>& parameters);

/// The inverse of name_weights: parameters in layout order, with zeros between the tensors. `prefix` comes before each
/// name; arrays of other names are ignored. Error{data_corrupt} that names `origin` and the first tensor that is absent
/// or has another shape.
std::vector<float> place_weights(const ModelSpec& model, const std::vector<NamedArray>& arrays,
                                 const std::string& prefix, const std::string& origin);

}  // namespace amdahl
