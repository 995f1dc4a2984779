#include "parallel/data/unit_sync.h"

#include <algorithm>

#include "device/profiler_ranges.h"

namespace amdahl {
namespace {

int64_t bytes_of(int64_t floats) { return floats * static_cast<int64_t>(sizeof(float)); }

}  // namespace

UnitSync::UnitSync(const SyncContext& context)
    : context_(context),
      storage_(context.model.storage()),
      gathers_(storage_.shards.parameters),
      staged_(storage_.param_plan()),
      param_places_(static_cast<size_t>(storage_.param_plan().num_slots)),
      grad_places_(static_cast<size_t>(storage_.grad_plan().num_slots)),
      is_open_(storage_.units.size(), false),
      passes_(storage_.units.size(), 0),
      begun_(context.device.make_event()),
      done_(context.device.make_event()) {
  if (!storage_.shards.gradients) throw Error(Cause::internal, "the gradients of this model are not divided");
  for (size_t layer = 0; layer < storage_.layout.layers.size(); ++layer)
    units_of_layer_.push_back(amdahl::units_of_layer(storage_.layout, storage_.units, layer));
  for (size_t unit = 0; unit < storage_.units.size(); ++unit) {
    gaps_.push_back(storage_.gaps(unit));
    ready_.push_back(context.device.make_event());
  }
  for (std::vector<Place>* places : {&param_places_, &grad_places_})
    for (Place& place : *places)
      for (auto* event : {&place.gathered, &place.used, &place.reduced}) *event = context.device.make_event();
  storage_.gate = this;
}

FloatRange UnitSync::front(size_t unit) const {
  const ParameterUnit& u = storage_.units[unit];
  return {u.floats.begin, u.floats.begin + u.parts.front};
}

FloatRange UnitSync::mine(size_t unit) const {
  const int64_t begin = front(unit).end + storage_.shards.rank * storage_.units[unit].parts.part;
  return {begin, begin + storage_.units[unit].parts.part};
}

bool UnitSync::is_late(size_t unit) const {
  const FloatRange& floats = storage_.units[unit].floats;
  return floats.begin < context_.late.end && floats.end > context_.late.begin;
}

void UnitSync::begin_pass(bool communicates, StepStamps* stamps) {
  communicates_ = communicates;
  stamps_ = stamps;
  num_collectives_ = 0;
  staged_.forget();  // an update followed; and a captured step begins like any other
  for (std::vector<Place>* places : {&param_places_, &grad_places_})
    for (Place& place : *places) place.was_used = place.was_reduced = false, place.unmet = SIZE_MAX;
  context_.compute.record(*begun_);
  context_.comm.wait(*begun_);
}

void UnitSync::begin_step(const BatchView&, float*, float*) {
  std::fill(passes_.begin(), passes_.end(), 0);
  std::fill(is_open_.begin(), is_open_.end(), false);
}

size_t UnitSync::begin_collective(int64_t bytes) {
  const size_t order = num_collectives_++;
  if (!stamps_) return order;
  stamps_->set_bytes(order, bytes);
  stamps_->start(context_.comm, StepStamps::at(stamps_->collectives, order));
  return order;
}

void UnitSync::end_collective(size_t order) {
  if (stamps_) stamps_->end(context_.comm, stamps_->collectives[order]);
}

void UnitSync::stall(Stream& stream, size_t order, Event& event) {
  if (stamps_) stamps_->start(stream, StepStamps::at(stamps_->stalls, order));
  stream.wait(event);
  if (stamps_) stamps_->end(stream, stamps_->stalls[order]);
}

void UnitSync::before(Stream& stream, const GatedLayer& at) {
  if (gathers_ && at.reads) {
    gather_layer(stream, at);
    if (context_.plan.overlap) gather_ahead(at);
  }
  if (!at.backward) return;
  open(stream, at.layer);
  // The layer computes the bias gradient of a dense one below.
  if (at.layer > at.first && storage_.layout.layers[at.layer - 1].shard.rows() > 0) open(stream, at.layer - 1);
}

void UnitSync::gather_layer(Stream& stream, const GatedLayer& at) {
  for (const size_t unit : units_of_layer_[at.layer]) {
    gather(unit);
    Place& place = param_places_[staged_.place(unit)];
    if (place.unmet == SIZE_MAX) continue;
    stall(stream, place.unmet, *place.gathered);
    place.unmet = SIZE_MAX;
  }
}

void UnitSync::gather_ahead(const GatedLayer& at) {
  for (size_t layer = at.layer; at.backward ? layer-- > at.first : ++layer < at.last;) {
    if (units_of_layer_[layer].empty()) continue;
    for (const size_t unit : units_of_layer_[layer]) gather(unit);
    return;
  }
}

void UnitSync::gather(size_t unit) {
  if (staged_.has(unit)) return;
  const ProfilerRange range("gather", bytes_of(storage_.units[unit].floats.floats()));
  Place& place = param_places_[staged_.place(unit)];
  if (place.was_used) context_.comm.wait(*place.used);
  staged_.put(unit);
  const FloatRange whole = front(unit), part = mine(unit);
  place.unmet = begin_collective(bytes_of(part.floats()));
  if (whole.floats() > 0)
    context_.device.copy_within(context_.comm, storage_.layer_param(whole.begin), storage_.owned_param(whole.begin),
                                static_cast<size_t>(bytes_of(whole.floats())));
  if (part.floats() > 0 && communicates_)
    context_.communicator.all_gather(storage_.owned_param(part.begin), storage_.layer_param(whole.end),
                                     static_cast<size_t>(part.floats()), DType::f32, context_.comm);
  end_collective(place.unmet);
  context_.comm.record(*place.gathered);
}

void UnitSync::open(Stream& stream, size_t layer) {
  for (const size_t unit : units_of_layer_[layer]) {
    if (is_open_[unit]) continue;
    is_open_[unit] = true;
    const Place& place = grad_places_[static_cast<size_t>(storage_.grad_plan().slot[unit])];
    if (place.was_reduced) stream.wait(*place.reduced);
    for (const FloatRange& gap : gaps_[unit])
      context_.device.fill_zero(stream, storage_.layer_grad(gap.begin), static_cast<size_t>(bytes_of(gap.floats())));
  }
}

void UnitSync::after(Stream& stream, const GatedLayer& at) {
  for (const size_t unit : units_of_layer_[at.layer]) {
    if (gathers_ && at.reads) {
      Place& place = param_places_[staged_.place(unit)];
      stream.record(*place.used);
      place.was_used = true;
    }
    if (!at.backward || !at.completes || storage_.units[unit].layer != at.layer) continue;
    const int64_t passes = ++passes_[unit];
    const bool last = passes == context_.plan.accumulate;
    if (last || !storage_.shards.held_whole) reduce(stream, unit, storage_.shards.held_whole || passes == 1, last);
  }
}

/// `first`, `last`: of this unit's reductions in a step.
void UnitSync::reduce(Stream& stream, size_t unit, bool first, bool last) {
  const ProfilerRange range("reduce", bytes_of(storage_.units[unit].floats.floats()));
  Place& place = grad_places_[static_cast<size_t>(storage_.grad_plan().slot[unit])];
  stream.record(*ready_[unit]);
  context_.comm.wait(*ready_[unit]);
  const size_t order = begin_collective(bytes_of(storage_.units[unit].parts.held()));
  reduce_range(front(unit), false, first);
  reduce_range(mine(unit), true, first);
  end_collective(order);
  context_.comm.record(*place.reduced);
  place.was_reduced = true;
  is_open_[unit] = false;
  if (last && communicates_ && !context_.optimizer.clips() && !is_late(unit)) update_and_gather(unit);
  if (stamps_) stamps_->start(stream, StepStamps::at(stamps_->stalls, order));
  if (!context_.plan.overlap) join();
  if (stamps_) stamps_->end(stream, stamps_->stalls[order]);
}

/// Adds a range of staged gradients, summed over the ranks, to what this rank keeps.
void UnitSync::reduce_range(const FloatRange& range, bool scatters, bool first) {
  if (range.floats() == 0) return;
  const auto count = static_cast<size_t>(range.floats());
  float* const own = storage_.layer_grad(range.begin);
  float* const kept = storage_.owned_grad(range.begin);
  if (communicates_ && scatters)
    context_.communicator.reduce_scatter(own - range.floats() * storage_.shards.rank, own, count, DType::f32,
                                         ReduceOp::sum, context_.comm);
  else if (communicates_)
    context_.communicator.all_reduce(own, count, DType::f32, ReduceOp::sum, context_.comm);
  if (first)
    context_.device.copy_within(context_.comm, kept, own, count * sizeof(float));
  else
    context_.ops.norm().residual_add(context_.comm, {kept, own, kept, range.floats(), DType::f32});
}

void UnitSync::update_unit(Stream& stream, size_t unit) {
  for (const FloatRange& range : {front(unit), mine(unit)})
    if (range.floats() > 0) context_.optimizer.update(stream, range.begin, range.end);
}

void UnitSync::update_and_gather(size_t unit) {
  update_unit(context_.comm, unit);
  const FloatRange part = mine(unit);
  if (gathers_ || part.floats() == 0) return;
  const size_t order = begin_collective(bytes_of(part.floats()));
  context_.communicator.all_gather(storage_.owned_param(part.begin), storage_.owned_param(front(unit).end),
                                   static_cast<size_t>(part.floats()), DType::f32, context_.comm);
  end_collective(order);
  if (stamps_) {
    stamps_->start(context_.compute, StepStamps::at(stamps_->stalls, order));
    stamps_->end(context_.compute, stamps_->stalls[order]);
  }
}

void UnitSync::wait_for_gradients(Stream& stream, int64_t at) {
  const size_t unit = storage_.unit_at(at);
  stream.wait(*grad_places_[static_cast<size_t>(storage_.grad_plan().slot[unit])].reduced);
}

void UnitSync::gradient_ready(int64_t begin, int64_t end, Stream& stream, StepStamps*) {
  for (size_t unit = 0; unit < storage_.units.size(); ++unit) {
    const FloatRange& floats = storage_.units[unit].floats;
    if (!is_late(unit) || floats.begin < begin || floats.end > end) continue;
    stream.record(*ready_[unit]);
    context_.comm.wait(*ready_[unit]);
    if (!context_.optimizer.clips()) update_and_gather(unit);
  }
}

void UnitSync::clip_and_update() {
  std::vector<FloatRange> counted;
  for (size_t unit = 0; unit < storage_.units.size(); ++unit) {
    if (storage_.shards.rank == 0 && front(unit).floats() > 0) counted.push_back(front(unit));
    if (mine(unit).floats() > 0) counted.push_back(mine(unit));
  }
  const size_t order = begin_collective(sizeof(float));
  float* const sum = context_.optimizer.sum_of_squares(context_.comm, counted);
  context_.communicator.all_reduce(sum, 1, DType::f32, ReduceOp::sum, context_.comm);
  context_.optimizer.clip(context_.comm);
  end_collective(order);
  if (stamps_) {
    stamps_->start(context_.compute, StepStamps::at(stamps_->stalls, order));
    stamps_->end(context_.compute, stamps_->stalls[order]);
  }
  for (size_t unit = 0; unit < storage_.units.size(); ++unit) update_and_gather(unit);
}

void UnitSync::join() {
  context_.comm.record(*done_);
  context_.compute.wait(*done_);
}

void UnitSync::finish_step(StepStamps*) {
  if (context_.optimizer.clips()) clip_and_update();
  const size_t order = begin_collective(0);  // what is left to wait for
  end_collective(order);
  context_.comm.record(*done_);
  stall(context_.compute, order, *done_);
  stamps_ = nullptr;
}

void UnitSync::update_alone() {
  join();
  clip_by_own_gradients(context_.optimizer, context_.compute, held_ranges(storage_.units, storage_.shards.rank));
  for (size_t unit = 0; unit < storage_.units.size(); ++unit) update_unit(context_.compute, unit);
}

namespace {

/// How often a step gathers each unit: the passes of Trainer over all layers, micro-batch by micro-batch.
std::vector<int64_t> gathers_per_step(const ParameterLayout& layout, const std::vector<ParameterUnit>& units,
                                      int64_t micro_batches) {
  std::vector<UnitSize> sizes;
  for (const ParameterUnit& unit : units) sizes.push_back({unit.floats.floats(), unit.is_pinned});
  StagedUnits staged(plan_staging(sizes, kParameterSlots));
  std::vector<int64_t> gathers(units.size(), 0);
  const auto visit = [&](size_t layer) {
    for (const size_t unit : units_of_layer(layout, units, layer)) {
      if (staged.has(unit)) continue;
      staged.put(unit);
      ++gathers[unit];
    }
  };
  for (int64_t micro = 0; micro < micro_batches; ++micro) {
    for (size_t i = layout.range.first; i < layout.range.last; ++i) visit(i);
    for (size_t i = layout.range.last; i-- > layout.range.first;) visit(i);
  }
  return gathers;
}

}  // namespace

std::unique_ptr<GradientSync> make_unit_sync(const SyncContext& context) { return std::make_unique<UnitSync>(context); }

int64_t unit_sync_traffic(const ParallelPlan& plan, const ModelSpec& model, int) {
  const ParameterLayout layout = make_layout(model);
  const std::vector<ParameterUnit> units = units_of(layout, plan.mesh.dp);
  const bool gathers = zero_stage(plan.strategy) == 3;
  const std::vector<int64_t> times =
      gathers ? gathers_per_step(layout, units, plan.accumulate) : std::vector<int64_t>(units.size(), 1);
  int64_t floats = 0;
  for (size_t unit = 0; unit < units.size(); ++unit)
    floats += plan.accumulate * units[unit].parts.held() + times[unit] * units[unit].parts.part;
  return bytes_of(floats);
}

std::vector<FloatRange> unit_sync_owned(const ParallelPlan& plan, const ParameterLayout& layout, int rank) {
  std::vector<FloatRange> owned;
  for (const FloatRange& range : held_ranges(units_of(layout, plan.mesh.dp), rank))
    if (!owned.empty() && owned.back().end == range.begin)
      owned.back().end = range.end;
    else
      owned.push_back(range);
  return owned;
}

}  // namespace amdahl
