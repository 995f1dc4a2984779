// Initial parameters of large tensors, which several threads draw.
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "base/philox.h"
#include "model/model.h"

namespace amdahl {
namespace {

TEST(InitialParameters, ALargeTensorHasTheDrawsOfItsIndices) {
  ModelSpec spec;
  spec.name = "wide";
  spec.input_width = 2050;
  spec.layers.push_back({2051, true, Activation::none, 0.0});
  const ParameterLayout layout = make_layout(spec);
  const std::vector<float> values = initial_parameters(spec, layout, 77);
  const TensorSlice& weight = layout.layers[0].tensors[0];
  const int64_t count = int64_t{2050} * 2051;
  ASSERT_EQ(weight.spec.num_parameters(), count);
  for (int64_t i = 0; i < count; i += i % 3 == 0 ? 1 : 97) {
    const auto block = static_cast<uint32_t>(i / 4 * 4);
    const Philox4 bits = philox(77, block, 0, 0, 0x1417);
    const int64_t pair = i % 4 / 2;
    const double radius = std::sqrt(-2.0 * std::log(static_cast<double>(philox_uniform(bits.v[2 * pair]))));
    const double angle = 2.0 * std::numbers::pi * static_cast<double>(philox_uniform(bits.v[2 * pair + 1]));
    const double expected = std::sqrt(2.0 / 2050) * radius * (i % 2 == 0 ? std::cos(angle) : std::sin(angle));
    ASSERT_EQ(values[static_cast<size_t>(weight.begin + i)], static_cast<float>(expected)) << i;
  }
}

}  // namespace
}  // namespace amdahl
