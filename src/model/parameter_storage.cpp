#include "model/parameter_storage.h"

#include <fmt/format.h>

#include <algorithm>

namespace amdahl {

std::vector<UnitSize> sizes_of(const std::vector<ParameterUnit>& units) {
  std::vector<UnitSize> sizes;
  for (const ParameterUnit& unit : units) sizes.push_back({unit.floats.floats(), unit.is_pinned});
  return sizes;
}

bool has_dense_layers(const ParameterLayout& layout) {
  return std::any_of(layout.layers.begin(), layout.layers.end(),
                     [](const LayerSlice& slice) { return slice.shard.rows() > 0; });
}

namespace {

std::unique_ptr<Buffer> floats_of(Device& device, int64_t count) {
  return device.allocate(static_cast<size_t>(std::max<int64_t>(1, count)) * sizeof(float));
}

}  // namespace

std::vector<ParameterUnit> units_of(const ParameterLayout& layout, int num_ranks) {
  std::vector<ParameterUnit> units;
  const auto add = [&](int64_t begin, int64_t end, size_t layer, bool is_pinned) {
    if (begin < end) units.push_back({{begin, end}, layer, is_pinned, divide_unit(end - begin, num_ranks), 0});
  };
  for (size_t i = 0; i < layout.layers.size(); ++i) {
    const LayerSlice& slice = layout.layers[i];
    const int64_t table = slice.is_tied_table ? slice.tensors[0].begin : slice.begin;  // the first tensor comes last
    add(slice.begin, table, i, false);
    add(table, slice.end, i, slice.is_tied_table);
  }
  std::sort(units.begin(), units.end(),
            [](const ParameterUnit& a, const ParameterUnit& b) { return a.floats.begin < b.floats.begin; });
  int64_t held = 0;
  for (ParameterUnit& unit : units) unit.held = held, held += unit.parts.held();
  return units;
}

std::vector<size_t> units_of_layer(const ParameterLayout& layout, const std::vector<ParameterUnit>& units,
                                   size_t layer) {
  std::vector<size_t> found;
  // A tied head without a tensor of its own reads the table of the embedding.
  const bool is_head = layer + 1 == layout.layers.size() && layout.layers[layer].tensors.empty();
  for (size_t u = 0; u < units.size(); ++u)
    if (units[u].layer == layer || (is_head && units[u].is_pinned)) found.push_back(u);
  return found;
}

std::vector<FloatRange> held_ranges(const std::vector<ParameterUnit>& units, int rank) {
  std::vector<FloatRange> ranges;
  for (const ParameterUnit& unit : units) {
    const int64_t parts = unit.floats.begin + unit.parts.front, mine = parts + rank * unit.parts.part;
    for (const FloatRange& range : {FloatRange{unit.floats.begin, parts}, FloatRange{mine, mine + unit.parts.part}})
      if (range.floats() > 0) ranges.push_back(range);
  }
  return ranges;
}

ParameterStorage::ParameterStorage(Device& device, ParameterLayout placed, const DataShards& divided)
    : layout(std::move(placed)),
      shards(divided),
      units(shards.gradients || shards.parameters ? units_of(layout, shards.num_ranks) : std::vector<ParameterUnit>{}),
      step(device.allocate(sizeof(uint64_t))),
      device_(device) {
  const int64_t held = units.empty() ? 0 : units.back().held + units.back().parts.held();
  params = floats_of(device, shards.parameters ? held : layout.num_floats);
  grads = floats_of(device, shards.gradients ? held : layout.num_floats);
  if (shards.parameters) {
    param_plan_ = plan_staging(sizes_of(units), kParameterSlots);
    param_staging_ = floats_of(device, param_plan_.floats);
  }
  if (shards.gradients) {
    grad_plan_ = plan_gradient_staging(sizes_of(units), has_dense_layers(layout), shards.held_whole);
    grad_staging_ = floats_of(device, grad_plan_.floats);
  }
}

size_t ParameterStorage::unit_at(int64_t at) const {
  const auto after = std::upper_bound(units.begin(), units.end(), at, [](int64_t position, const ParameterUnit& unit) {
    return position < unit.floats.begin;
  });
  if (after == units.begin()) return units.size();
  const auto found = after - 1;
  return at < found->floats.end ? static_cast<size_t>(found - units.begin()) : units.size();
}

float* ParameterStorage::staged(const std::shared_ptr<Buffer>& whole, const std::unique_ptr<Buffer>& staging,
                                const StagingPlan& plan, int64_t at) const {
  if (!staging) return whole->as<float>() + at;
  const size_t unit = unit_at(at);
  return unit == units.size() ? nullptr : staging->as<float>() + plan.begin[unit] + (at - units[unit].floats.begin);
}

float* ParameterStorage::kept(const std::shared_ptr<Buffer>& array, bool is_divided, int64_t at) const {
  if (!is_divided) return array->as<float>() + at;
  if (const size_t index = unit_at(at); index < units.size()) {
    const ParameterUnit& unit = units[index];
    float* const first = array->as<float>() + unit.held;
    const int64_t in_unit = at - unit.floats.begin;
    if (in_unit < unit.parts.front) return first + in_unit;
    const int64_t in_part = in_unit - unit.parts.front - shards.rank * unit.parts.part;
    if (in_part >= 0 && in_part < unit.parts.part) return first + unit.parts.front + in_part;
  }
  throw Error(Cause::internal, fmt::format("float {} of the parameters is another rank's", at));
}

std::vector<FloatRange> ParameterStorage::gaps(size_t index) const {
  const ParameterUnit& unit = units[index];
  const LayerSlice& slice = layout.layers[unit.layer];
  std::vector<FloatRange> ranges;
  for (size_t t = slice.tensors.size(); t-- > 0;) {  // the last tensor comes first in memory
    const TensorSlice& tensor = slice.tensors[t];
    if (tensor.begin < unit.floats.begin || tensor.begin >= unit.floats.end) continue;
    const int64_t end = t == 0 ? slice.end : slice.tensors[t - 1].begin;
    const int64_t written = tensor.is_partly_written ? tensor.begin : tensor.begin + tensor.spec.stored_floats();
    if (end == written) continue;
    if (!ranges.empty() && ranges.back().end == written)
      ranges.back().end = end;
    else
      ranges.push_back({written, end});
  }
  return ranges;
}

std::vector<float> ParameterStorage::held_of(const std::vector<float>& whole) const {
  std::vector<float> values;
  for (const FloatRange& range : held_ranges(units, shards.rank))
    values.insert(values.end(), whole.begin() + range.begin, whole.begin() + range.end);
  return values;
}

void ParameterStorage::fill_zero(Stream& stream) {
  for (Buffer* buffer : {grads.get(), param_staging_.get(), grad_staging_.get(), step.get()})
    if (buffer) device_.fill_zero(stream, buffer->data(), buffer->bytes());
}

}  // namespace amdahl
