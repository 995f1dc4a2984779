// Loss and gradients of a chain of layers in float64, from the references of single operations.
#pragma once

#include <vector>

#include "amdahl/plan.h"
#include "model/parameter_layout.h"
#include "reference_sequence.h"

namespace amdahl::test {

/// Every kind of layer, in training; dense layers without dropout.
class ReferenceModel {
 public:
  explicit ReferenceModel(const ModelSpec& spec) : spec_(spec), layout_(make_layout(spec)) {}

  /// Mean loss over `rows` rows, and its gradient in the order of the layout.
  struct Result {
    double loss = 0, correct = 0;
    reference::Values gradients;
    reference::Values outputs;  // of the last layer
  };
  Result run(const reference::Values& parameters, const std::vector<float>& features, const std::vector<float>& targets,
             int64_t rows) const;

 private:
  ModelSpec spec_;
  ParameterLayout layout_;
};

}  // namespace amdahl::test
