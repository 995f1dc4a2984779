#include "train/named_weights.h"

#include <fmt/format.h>

#include "model/parameter_layout.h"

namespace amdahl {

std::vector<NamedArray> name_weights(const ModelSpec& model, const std::vector<float>& parameters) {
  std::vector<NamedArray> arrays;
  const ParameterLayout layout = make_layout(model);
  const auto add = [&](std::string name, int64_t begin, std::vector<int64_t> shape) {
    int64_t count = 1;
    for (const int64_t extent : shape) count *= extent;
    arrays.push_back(
        {std::move(name), std::move(shape), {parameters.begin() + begin, parameters.begin() + begin + count}});
  };
  for (size_t i = 0; i < layout.layers.size(); ++i) {
    const LayerSlice& slice = layout.layers[i];
    for (const TensorSlice& tensor : slice.tensors)
      add(fmt::format("layers.{}.{}", i, tensor.spec.name), tensor.begin, tensor.spec.shape);
  }
  return arrays;
}

}  // namespace amdahl
