// Modelled memory of a plan's fullest device.
#include <algorithm>

#include "base/plan_rules.h"
#include "base/shards.h"

namespace amdahl {
namespace {

constexpr int64_t kFloatBytes = sizeof(float);

int64_t aligned_floats(int64_t floats) { return (floats + 63) / 64 * 64; }  // as make_layout

/// What the layers of one stage take on tensor-parallel rank 0, which has the largest shards.
struct StageBytes {
  int64_t parameter_floats = 0;
  int64_t per_row = 0;  // of every micro-batch in flight
  int64_t shared_per_row = 0, fixed = 0;
};

/// Model and plan, with what follows from them.
struct ModelShares {
  const ModelSpec& model;
  const ParallelPlan& plan;
  MemoryChoice choice;
  std::vector<TensorRole> roles;
  TensorPlace place() const { return {plan.mesh.tp, 0}; }
};

/// What the other ranks hold of a block: of q, k, v and attention's output, of its sums of exponentials, and of the
/// hidden values before and after GELU with their gradient.
LayerMemory elsewhere_of_block(const LayerSpec& layer, int64_t steps, const MemoryChoice& choice, int64_t tp) {
  const int64_t typed = static_cast<int64_t>(size_of(choice.type)), d = layer.units;
  const auto others = [&](int64_t bytes) { return bytes - bytes / tp; };
  const int64_t attention = others(4 * d * typed + layer.heads * kFloatBytes), hidden = others(8 * d * typed);
  LayerMemory memory{0, steps * others(4 * d * typed), 0};
  (choice.recompute == Recompute::block ? memory.shared : memory.kept) += steps * attention;
  (choice.recompute == Recompute::none ? memory.kept : memory.shared) += steps * hidden;
  return memory;
}

LayerMemory layer_memory(const ModelShares& shares, size_t i) {
  const LayerSpec& layer = shares.model.layers[i];
  const Shape input = shares.model.layer_input_shape(i);
  LayerMemory memory = row_of(layer.kind).memory(layer, input, shares.choice);
  const int64_t tp = shares.plan.mesh.tp;
  if (tp == 1) return memory;
  if (shares.roles[i] == TensorRole::column) {
    memory.kept = memory.kept * column_units(layer.units, shares.place()).rows() / layer.units;
  } else if (layer.kind == LayerKind::token_head) {
    const int64_t held = vocabulary_rows(layer.vocabulary, shares.place()).rows();
    const int64_t typed = static_cast<int64_t>(size_of(shares.choice.type));
    memory.kept -= input[0] * (padded_vocabulary(layer.vocabulary) - held) * typed;
    memory.kept += input[0] * 4 * (1 + tp) * kFloatBytes;  // parts of the loss
  } else if (layer.kind == LayerKind::transformer_block) {
    const LayerMemory elsewhere = elsewhere_of_block(layer, input[0], shares.choice, tp);
    memory.kept -= elsewhere.kept;
    memory.shared -= elsewhere.shared;
  }
  if (shares.roles[i] == TensorRole::divided) memory.fixed /= tp;
  return memory;
}

StageBytes stage_bytes(const ModelShares& shares, const LayerRange& range, bool holds_table) {
  StageBytes bytes;
  const auto add = [&](size_t layer, size_t most) {
    const std::vector<ParameterSpec> held = shard_parameters(shares.model, layer, shares.roles[layer], shares.place());
    for (size_t t = 0; t < std::min(most, held.size()); ++t)
      bytes.parameter_floats += aligned_floats(held[t].stored_floats());
  };
  for (size_t i = range.first; i < std::min(range.last, shares.model.layers.size()); ++i) {
    add(i, SIZE_MAX);
    if (shares.model.layers[i].tied && !holds_table) add(0, 1);  // a copy of the table
    const LayerMemory memory = layer_memory(shares, i);
    bytes.per_row += memory.kept;
    bytes.fixed += memory.fixed;
    bytes.shared_per_row = std::max(bytes.shared_per_row, memory.shared);
  }
  if (range.first > 0)  // what is received, and its gradient
    bytes.per_row += 2 * shares.model.layer_input_width(range.first) * kFloatBytes;
  return bytes;
}

}  // namespace

PlanMemory plan_memory(const ParallelPlan& plan, const ModelSpec& model, int optimizer_arrays, DType type) {
  const int stages = num_stages(plan), ranks = plan.mesh.pp;
  std::vector<LayerRange> ranges{{}};
  if (ranks > 1) ranges = stage_layers(model, stages, static_cast<StageSplit>(plan.split));
  const ModelShares shares{model, plan, {static_cast<Recompute>(plan.recompute), type}, tensor_roles(model, ranges)};
  const int64_t dp_rows = plan.strategy == "replicated" ? plan.global_batch : most_data_rows(plan);
  const int64_t rows = even_share(dp_rows, plan.accumulate, 0).rows();
  const auto holder = [&](int stage) { return ranks == 1 ? 0 : rank_of_stage(schedule_of(plan), ranks, stage); };
  PlanMemory fullest;
  for (int rank = 0; rank < ranks; ++rank) {
    StageBytes sum;
    int64_t held = 0, shared = 0;
    for (int s = 0; s < stages; ++s) {
      if (holder(s) != rank) continue;
      const StageBytes bytes = stage_bytes(shares, ranges[static_cast<size_t>(s)], rank == holder(0));
      sum.parameter_floats += bytes.parameter_floats, sum.per_row += bytes.per_row, sum.fixed += bytes.fixed;
      shared += bytes.shared_per_row, ++held;  // every stage has its own
    }
    const int64_t in_flight = ranks == 1
                                  ? 1
                                  : peak_activations_formula(schedule_of(plan), ranks,
                                                             static_cast<int>(plan.accumulate), chunks_of(plan), rank);
    PlanMemory memory;
    memory.parameters = memory.gradients = sum.parameter_floats * kFloatBytes;
    memory.optimizer = memory.parameters * optimizer_arrays / (plan.strategy == "zero1" ? plan.mesh.dp : 1);
    memory.activations = (sum.per_row * in_flight / held + shared) * rows + sum.fixed;
    if (memory.total() > fullest.total()) fullest = memory;
  }
  return fullest;
}

}  // namespace amdahl
