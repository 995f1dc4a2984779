// Modelled memory of a plan's fullest device.
#include <algorithm>

#include "base/plan_rules.h"
#include "base/shards.h"

namespace amdahl {
namespace {

constexpr int64_t kFloatBytes = sizeof(float);

int64_t aligned_floats(int64_t floats) { return (floats + 63) / 64 * 64; }  // as make_layout

/// What the layers of one stage take on one tensor-parallel rank, in floats.
struct StageFloats {
  int64_t parameters = 0;
  int64_t per_row = 0;  // kept of every row of a micro-batch in flight
  int64_t scratch_per_row = 0;
};

struct ModelShares {
  const ModelSpec& model;
  const ParallelPlan& plan;
  std::vector<TensorRole> roles;
};

LayerMemory memory_of(const ModelShares& shares, size_t i) {
  const LayerSpec& layer = shares.model.layers[i];
  return row_of(layer.kind).memory(layer, shares.model.layer_input_shape(i),
                                   {static_cast<Recompute>(shares.plan.recompute), DType::f32});
}

/// Floats per row that a layer keeps between forward and backward, and its output with its gradient.
int64_t kept_floats(const ModelShares& shares, size_t i) {
  const LayerSpec& layer = shares.model.layers[i];
  const Shape input = shares.model.layer_input_shape(i);
  const int64_t tp = shares.plan.mesh.tp;
  const LayerMemory memory = memory_of(shares, i);
  const int64_t kept = memory.kept / kFloatBytes;
  if (shares.roles[i] == TensorRole::column) return kept / tp;
  if (shares.roles[i] != TensorRole::divided) return kept;
  if (layer.kind != LayerKind::transformer_block) return layer.kind == LayerKind::token_head ? kept / tp : kept;
  // Output, its gradient, residual sums, normalised inputs and their statistics are whole on every rank.
  const bool keeps_all = static_cast<Recompute>(shares.plan.recompute) == Recompute::none;
  const int64_t whole = input[0] * (2 * layer.units + (keeps_all ? 3 * layer.units + 4 : layer.units + 2));
  return std::min(kept, whole) + std::max<int64_t>(0, kept - whole) / tp;
}

/// Temporaries of a block's backward, and what it computes again.
int64_t scratch_floats(const ModelShares& shares, size_t i) {
  const LayerSpec& layer = shares.model.layers[i];
  const int64_t shared = memory_of(shares, i).shared / kFloatBytes;
  if (layer.kind != LayerKind::transformer_block || shares.roles[i] != TensorRole::divided) return shared;
  const int64_t whole = 4 * shares.model.layer_input_shape(i)[0] * layer.units;
  return whole + (shared - whole) / shares.plan.mesh.tp;
}

StageFloats stage_floats(const ModelShares& shares, const LayerRange& range, bool holds_table) {
  StageFloats floats;
  const size_t last = std::min(range.last, shares.model.layers.size());
  for (size_t i = range.first; i < last; ++i) {
    for (const ParameterSpec& parameter : shard_parameters(shares.model, i, shares.roles[i], {shares.plan.mesh.tp, 0}))
      floats.parameters += aligned_floats(parameter.stored_floats());
    if (shares.model.layers[i].tied && !holds_table)
      floats.parameters += aligned_floats(
          shard_parameters(shares.model, 0, shares.roles[0], {shares.plan.mesh.tp, 0})[0].stored_floats());
    floats.per_row += kept_floats(shares, i);
    floats.scratch_per_row = std::max(floats.scratch_per_row, scratch_floats(shares, i));
  }
  if (range.first > 0) floats.per_row += 2 * shares.model.layer_input_width(range.first);  // received, and its gradient
  return floats;
}

}  // namespace

PlanMemory plan_memory(const ParallelPlan& plan, const ModelSpec& model, int optimizer_arrays) {
  const int stages = num_stages(plan), ranks = plan.mesh.pp;
  std::vector<LayerRange> ranges{{}};
  if (ranks > 1) ranges = stage_layers(model, stages, static_cast<StageSplit>(plan.split));
  const ModelShares shares{model, plan, tensor_roles(model, ranges)};
  const int64_t dp_rows =
      plan.strategy == "replicated" ? plan.global_batch : even_share(plan.global_batch, plan.mesh.dp, 0).rows();
  const int64_t rows = even_share(dp_rows, plan.accumulate, 0).rows();
  PlanMemory fullest;
  for (int rank = 0; rank < ranks; ++rank) {
    int64_t parameters = 0, per_row = 0, scratch = 0, held = 0;
    for (int s = 0; s < stages; ++s) {
      const int holder = ranks == 1 ? 0 : rank_of_stage(schedule_of(plan), ranks, s);
      if (holder != rank) continue;
      const bool holds_table = rank == (ranks == 1 ? 0 : rank_of_stage(schedule_of(plan), ranks, 0));
      const StageFloats floats = stage_floats(shares, ranges[static_cast<size_t>(s)], holds_table);
      parameters += floats.parameters, per_row += floats.per_row, ++held;
      scratch = std::max(scratch, floats.scratch_per_row);
    }
    const int64_t in_flight = ranks == 1
                                  ? 1
                                  : peak_activations_formula(schedule_of(plan), ranks,
                                                             static_cast<int>(plan.accumulate), chunks_of(plan), rank);
    PlanMemory memory;
    memory.parameters = memory.gradients = parameters * kFloatBytes;
    memory.optimizer = parameters * kFloatBytes * optimizer_arrays / (plan.strategy == "zero1" ? plan.mesh.dp : 1);
    memory.activations = (per_row * in_flight / std::max<int64_t>(1, held) + scratch) * rows * kFloatBytes;
    if (memory.total() > fullest.total()) fullest = memory;
  }
  return fullest;
}

}  // namespace amdahl
