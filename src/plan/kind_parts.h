// What the rows of layer kinds share: parameters, operations and refusals. Private to this folder.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "plan/layer_kinds.h"

namespace amdahl {

inline std::string needs(const LayerSpec& layer, const Shape& input, size_t dimensions, const char* shape) {
  if (input.size() != dimensions) return fmt::format("its input is {}, not {}", shape_text(input), shape);
  return layer.units < 1 ? fmt::format("it has {} units", layer.units) : "";
}

inline double as_double(int64_t value) { return static_cast<double>(value); }
inline double gemm_flops(int64_t rows, int64_t in, int64_t out) {
  return 2 * as_double(rows) * as_double(in) * as_double(out);
}

/// By default with the standard deviation of the initial weights of transformers, as GPT-2's.
inline ParameterSpec normal(std::string name, Shape shape, double scale = 0.02) {
  return {std::move(name), std::move(shape), Initial::normal, scale};
}
inline ParameterSpec zeros(std::string name, Shape shape) { return {std::move(name), std::move(shape), Initial::zero}; }
inline ParameterSpec ones(std::string name, Shape shape) { return {std::move(name), std::move(shape), Initial::one}; }

inline LayerField required(std::string_view name, int64_t LayerSpec::*member, int64_t least = 1) {
  return {.name = name, .integer = member, .is_required = true, .least = least};
}
inline LayerField integer(std::string_view name, int64_t LayerSpec::*member, int64_t least = 0) {
  return {.name = name, .integer = member, .least = least};
}
inline LayerField boolean(std::string_view name, bool LayerSpec::*member) { return {.name = name, .boolean = member}; }
inline LayerField number(std::string_view name, double LayerSpec::*member) { return {.name = name, .number = member}; }
/// A field of an enumeration whose values have these names in their order.
template <auto kMember>
LayerField choice(std::string_view name, const std::vector<std::string_view>& choices) {
  return {.name = name,
          .choices = choices,
          .chosen = [](const LayerSpec& layer) { return static_cast<int64_t>(layer.*kMember); },
          .choose =
              [](LayerSpec& layer, int64_t value) {
                auto& member = layer.*kMember;
                member = static_cast<std::remove_reference_t<decltype(member)>>(value);
              }};
}
inline LayerField omitted(LayerField field) {
  field.is_omitted = true;
  return field;
}

/// The rows of transformer blocks and of normalisations.
LayerKindRow block_row();
LayerKindRow norm_row();
/// "its input is [..]" unless it is [steps, units].
std::string sequence_problem(const LayerSpec& layer, const Shape& input);
inline Shape same_shape(const LayerSpec&, const Shape& input) { return input; }
inline double no_flops(const LayerSpec&, const Shape&) { return 0; }

}  // namespace amdahl
