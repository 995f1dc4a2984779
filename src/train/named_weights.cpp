#include "train/named_weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "model/parameter_layout.h"

namespace amdahl {

int64_t WeightRange::floats() const {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  return count;
}

std::vector<WeightRange> weight_ranges(const ModelSpec& model) {
  std::vector<WeightRange> ranges;
  const ParameterLayout layout = make_layout(model);
  for (size_t i = 0; i < layout.layers.size(); ++i) {
    const LayerSlice& slice = layout.layers[i];
    for (const TensorSlice& tensor : slice.tensors)
      ranges.push_back({fmt::format("layers.{}.{}", i, tensor.spec.name), tensor.spec.shape, tensor.begin});
  }
  return ranges;
}

std::vector<NamedArray> name_weights(const ModelSpec& model, const std::vector<float>& parameters) {
  std::vector<NamedArray> arrays;
  for (WeightRange& range : weight_ranges(model)) {
    const auto begin = parameters.begin() + range.begin;
    arrays.push_back({std::move(range.name), range.shape, {begin, begin + range.floats()}});
  }
  return arrays;
}

std::vector<float> place_weights(const ModelSpec& model, const std::vector<NamedArray>& arrays,
                                 const std::string& prefix, const std::string& origin) {
  std::vector<float> parameters(static_cast<size_t>(make_layout(model).num_floats), 0.0f);
  for (const WeightRange& range : weight_ranges(model)) {
    const std::string name = prefix + range.name;
    const auto found =
        std::find_if(arrays.begin(), arrays.end(), [&](const NamedArray& array) { return array.name == name; });
    if (found == arrays.end() || found->shape != range.shape)
      throw Error(
          Cause::data_corrupt,
          fmt::format("{}: tensor '{}' of shape [{}] is {}", origin, name, fmt::join(range.shape, ", "),
                      found == arrays.end() ? "absent" : fmt::format("[{}] there", fmt::join(found->shape, ", "))),
          fmt::format("a file of model '{}'", model.name));
    std::copy(found->values.begin(), found->values.end(), parameters.begin() + range.begin);
  }
  return parameters;
}

}  // namespace amdahl
