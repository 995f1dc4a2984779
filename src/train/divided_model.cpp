#include "train/divided_model.h"

#include <algorithm>

namespace amdahl {
namespace {

/// The parts of `ranges` that are in `counted`; both ascending and disjoint.
std::vector<FloatRange> common_parts(const std::vector<FloatRange>& ranges, const std::vector<FloatRange>& counted) {
  std::vector<FloatRange> parts;
  for (const FloatRange& range : ranges)
    for (const FloatRange& each : counted) {
      const FloatRange part{std::max(range.begin, each.begin), std::min(range.end, each.end)};
      if (part.floats() > 0) parts.push_back(part);
    }
  return parts;
}

/// Clips by the norm over the ranks of a replica, each of which adds the squares of its `counted` gradients.
class ReplicaOptimizer final : public RangeOptimizer {
 public:
  ReplicaOptimizer(RangeOptimizer& own, Communicator& replica, std::vector<FloatRange> counted)
      : own_(own), replica_(replica), counted_(std::move(counted)) {}

  void update(Stream& stream, int64_t begin, int64_t end) override { own_.update(stream, begin, end); }
  bool is_adam() const override { return own_.is_adam(); }
  AdamStep adam_step(int64_t begin, int64_t end) override { return own_.adam_step(begin, end); }
  bool clips() const override { return own_.clips(); }
  float* sum_of_squares(Stream& stream, const std::vector<FloatRange>& ranges) override {
    return sum_ = own_.sum_of_squares(stream, common_parts(ranges, counted_));
  }
  void clip(Stream& stream) override {
    replica_.all_reduce(sum_, 1, DType::f32, ReduceOp::sum, stream);
    own_.clip(stream);
  }

 private:
  RangeOptimizer& own_;
  Communicator& replica_;
  std::vector<FloatRange> counted_;
  float* sum_ = nullptr;
};

/// Where this rank keeps the first of a table's gradients that it keeps.
float* first_kept(const ParameterStorage& storage, const FloatRange& table) {
  if (!storage.shards.gradients) return storage.grads->as<float>() + table.begin;
  return storage.grads->as<float>() + storage.units[storage.unit_at(table.begin)].held;
}

}  // namespace

FloatRange DividedModel::shared_table() const {
  if (!tables_) return {};
  const ParameterLayout& layout = (runner_ ? runner_->model(0) : *model_).layout();
  const LayerSlice& slice = place().pp == 0 ? layout.layers.front() : layout.layers.back();
  return {slice.tensors[0].begin, slice.tensors[0].begin + slice.tensors[0].spec.stored_floats()};
}

Model* DividedModel::loss_model() {
  if (!runner_) return model_.get();
  const int stage = runner_->loss_stage();
  return stage < 0 ? nullptr : &runner_->model(static_cast<size_t>(stage));
}

std::vector<NamedBuffer> DividedModel::buffers() {
  if (!runner_) return model_->buffers();
  std::vector<NamedBuffer> all;
  for (size_t s = 0; s < runner_->num_stages(); ++s)
    for (NamedBuffer& buffer : runner_->model(s).buffers()) all.push_back(std::move(buffer));
  return all;
}

void DividedModel::initialise(Deadline deadline) {
  if (runner_)
    runner_->initialise();
  else
    model_->initialise(context_.compute, deadline);
}

void DividedModel::silence(bool silent) {
  silent_ = silent;
  silence_tensor(silent);
  if (runner_) runner_->silence(silent);
}

void DividedModel::enqueue_gradients(const float* features, const float* targets, StageHooks hooks) {
  const FloatRange table = shared_table();
  if (table.floats() == 0 || silent_) return runner_->enqueue_gradients(features, targets, hooks);
  std::vector<FloatRange> deferred;
  const auto ready = hooks.ready;
  if (ready)
    hooks.ready = [&](int64_t begin, int64_t end, Stream& stream) {
      if (begin < table.end && end > table.begin)
        deferred.push_back({begin, end});
      else
        ready(begin, end, stream);
    };
  runner_->enqueue_gradients(features, targets, hooks);
  ParameterStorage& storage = model().storage();
  auto floats = static_cast<size_t>(table.floats());
  if (storage.gate) {  // this rank keeps the front and its part of the table, one after the other
    storage.gate->wait_for_gradients(context_.compute, table.begin);
    floats = static_cast<size_t>(storage.units[storage.unit_at(table.begin)].parts.held());
  }
  tables_->all_reduce(first_kept(storage, table), floats, DType::f32, ReduceOp::sum, context_.compute);
  for (const FloatRange& range : deferred) ready(range.begin, range.end, context_.compute);
}

/// Gradients that no other rank of the replica counts: copies and replicated tensors count once.
std::vector<FloatRange> DividedModel::counted_ranges() const {
  std::vector<FloatRange> ranges;
  const ParameterLayout& layout = (runner_ ? runner_->model(0) : *model_).layout();
  for (size_t i = layout.layers.size(); i-- > 0;) {  // the last layer comes first in memory, as its last tensor
    const LayerSlice& slice = layout.layers[i];
    if (slice.is_table_copy) continue;
    for (size_t t = slice.tensors.size(); t-- > 0;) {
      const TensorSlice& tensor = slice.tensors[t];
      if (tensor.shard.axis < 0 && place().tp > 0) continue;
      const int64_t end = tensor.begin + (tensor.spec.stored_floats() + 63) / 64 * 64;  // the padding is zero
      if (!ranges.empty() && ranges.back().end == tensor.begin)
        ranges.back().end = end;
      else
        ranges.push_back({tensor.begin, end});
    }
  }
  return ranges;
}

RangeOptimizer& DividedModel::shared(RangeOptimizer& optimizer) {
  if (!is_divided()) return optimizer;
  optimizer_ = std::make_unique<ReplicaOptimizer>(optimizer, *replica_, counted_ranges());
  return *optimizer_;
}

size_t DividedModel::take_traffic() {
  size_t bytes = runner_ ? runner_->take_traffic() : 0;
  std::vector<Communicator*> groups{&context_.world};
  if (mesh_) groups.insert(groups.end(), {&mesh_->dp(), &mesh_->tp(), &mesh_->pp(), replica_.get()});
  if (tables_) groups.push_back(tables_.get());
  for (Communicator* const group : groups) {
    bytes += group->traffic().payload_bytes;
    group->reset_traffic();
  }
  return bytes;
}

}  // namespace amdahl
