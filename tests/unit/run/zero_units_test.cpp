// The units of ZeRO stages 2 and 3: how they cover a layout, what a rank keeps, and where they are staged.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "comm/world.h"
#include "model/parameter_storage.h"
#include "sequence_models.h"

namespace amdahl::test {
namespace {

TEST(ZeroUnits, StagesAreNamedByStrategies) {
  EXPECT_EQ(zero_stage("ddp"), 0);
  EXPECT_EQ(zero_stage("single"), 0);
  EXPECT_EQ(zero_stage("zero1"), 1);
  EXPECT_EQ(zero_stage("zero2"), 2);
  EXPECT_EQ(zero_stage("zero3"), 3);
}

TEST(ZeroUnits, CoverTheLayoutAndAreKeptOnce) {
  for (const SmallModel& small : small_sequence_models()) {
    const ParameterLayout layout = make_layout(small.spec);
    for (const int ranks : {1, 2, 3, 8}) {
      const std::vector<ParameterUnit> units = units_of(layout, ranks);
      int64_t at = 0, held = 0;
      for (const ParameterUnit& unit : units) {
        EXPECT_EQ(unit.floats.begin, at) << small.name;
        EXPECT_EQ(unit.held, held);
        EXPECT_EQ(unit.parts.front + ranks * unit.parts.part, unit.floats.floats());
        EXPECT_EQ(unit.parts.part % 64, 0);
        EXPECT_LT(unit.parts.front, 64 * ranks);
        at = unit.floats.end, held += unit.parts.held();
      }
      EXPECT_EQ(at, layout.num_floats) << small.name;
      std::vector<int> owners(static_cast<size_t>(layout.num_floats), 0);
      for (int rank = 0; rank < ranks; ++rank)
        for (const FloatRange& range : held_ranges(units, rank))
          for (int64_t i = range.begin; i < range.end; ++i) ++owners[static_cast<size_t>(i)];
      for (const ParameterUnit& unit : units)
        for (int64_t i = unit.floats.begin; i < unit.floats.end; ++i)
          ASSERT_EQ(owners[static_cast<size_t>(i)], i < unit.floats.begin + unit.parts.front ? ranks : 1);
    }
  }
}

TEST(ZeroUnits, ATableThatTwoLayersShareHasAPlaceOfItsOwn) {
  const ModelSpec model = small_gpt(true);
  const ParameterLayout layout = make_layout(model);
  const std::vector<ParameterUnit> units = units_of(layout, 2);
  const std::vector<size_t> head = units_of_layer(layout, units, model.layers.size() - 1);
  ASSERT_EQ(head.size(), 1U);
  EXPECT_TRUE(units[head[0]].is_pinned);
  EXPECT_EQ(units_of_layer(layout, units, 0).size(), 1U + (model.layers[0].positions ? 1U : 0U));
  const auto devices = make_cpu_devices(1);
  const ParameterStorage storage(*devices[0], layout, {2, 1, true, true});
  std::set<int> places;
  for (size_t unit = 0; unit < units.size(); ++unit)
    if (unit != head[0]) places.insert(storage.param_plan().slot[unit]);
  EXPECT_EQ(places.count(storage.param_plan().slot[head[0]]), 0U);
  EXPECT_EQ(static_cast<int>(places.size()), kParameterSlots);
  // Neighbours never share a place: one is gathered while the other computes.
  for (size_t unit = 0; unit + 2 < units.size(); ++unit)
    EXPECT_NE(storage.param_plan().slot[unit], storage.param_plan().slot[unit + 1]);
}

TEST(ZeroUnits, ARankFindsWhatItKeeps) {
  const ParameterLayout layout = make_layout(small_transformer());
  const auto devices = make_cpu_devices(1);
  const ParameterStorage storage(*devices[0], layout, {3, 2, true, true});
  std::set<float*> kept;
  int64_t floats = 0;
  for (const FloatRange& range : held_ranges(storage.units, 2))
    for (int64_t i = range.begin; i < range.end; ++i, ++floats) kept.insert(storage.owned_param(i));
  EXPECT_EQ(static_cast<int64_t>(kept.size()), floats) << "two floats at one place";
  EXPECT_LE(storage.params->bytes(), static_cast<size_t>(layout.num_floats) * sizeof(float) * 2 / 5);
  const ParameterUnit& large =
      *std::max_element(storage.units.begin(), storage.units.end(),
                        [](const ParameterUnit& a, const ParameterUnit& b) { return a.parts.part < b.parts.part; });
  EXPECT_THROW((void)storage.owned_param(large.floats.begin + large.parts.front), Error) << "rank 0 keeps it";
  std::vector<float> whole(static_cast<size_t>(layout.num_floats));
  for (size_t i = 0; i < whole.size(); ++i) whole[i] = static_cast<float>(i);
  const std::vector<float> held = storage.held_of(whole);
  EXPECT_EQ(static_cast<int64_t>(held.size()), floats);
  size_t at = 0;
  for (const FloatRange& range : held_ranges(storage.units, 2))
    for (int64_t i = range.begin; i < range.end; ++i) ASSERT_EQ(held[at++], static_cast<float>(i));
}

TEST(ZeroUnits, PaddingAndUnusedRowsAreGaps) {
  const ModelSpec model = small_bert();  // token types of which one is used
  const ParameterLayout layout = make_layout(model);
  const auto devices = make_cpu_devices(1);
  const ParameterStorage storage(*devices[0], layout, {2, 0, true, false});
  std::vector<uint8_t> is_gap(static_cast<size_t>(layout.num_floats), 0);
  for (size_t unit = 0; unit < storage.units.size(); ++unit)
    for (const FloatRange& gap : storage.gaps(unit))
      for (int64_t i = gap.begin; i < gap.end; ++i) is_gap[static_cast<size_t>(i)] = 1;
  for (size_t layer = 0; layer < layout.layers.size(); ++layer)
    for (size_t t = 0; t < layout.layers[layer].tensors.size(); ++t) {
      const TensorSlice& tensor = layout.layers[layer].tensors[t];
      const int64_t end = tensor.begin + tensor.spec.stored_floats();
      EXPECT_EQ(is_gap[static_cast<size_t>(tensor.begin)] == 1, layer == 0 && t > 0) << layer << " " << t;
      EXPECT_TRUE(end % 64 == 0 || is_gap[static_cast<size_t>(end)] == 1) << layer << " " << t;
    }
}

}  // namespace
}  // namespace amdahl::test
