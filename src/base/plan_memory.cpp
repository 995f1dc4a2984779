#include "base/plan_memory.h"

#include <algorithm>

#include "base/cpu_scratch.h"
#include "base/layer_memory.h"
#include "base/math_mode.h"
#include "base/plan_rules.h"
#include "base/shards.h"

namespace amdahl {
namespace {

constexpr int64_t kFloatBytes = sizeof(float);

int64_t aligned_floats(int64_t floats) { return (floats + 63) / 64 * 64; }  // as make_layout

/// What the layers of one stage take on tensor-parallel rank 0.
struct StageBytes {
  std::vector<UnitSize> units;  // the first layer first
  bool has_dense_layers = false;
  int64_t gathered = 0;  // bytes of the largest layer's parameters in the compute type, where they are gathered
  int64_t per_row = 0;   // of every micro-batch in flight
  int64_t shared_per_row = 0, fixed = 0;
};

/// Model and plan, with what follows from them.
struct ModelShares {
  const ModelSpec& model;
  const ParallelPlan& plan;
  MemoryChoice choice;
  std::vector<TensorRole> roles;
  std::vector<bool> tokens{};  // divided_tokens; empty without sequence parallelism
  TensorPlace place() const { return {plan.mesh.tp, 0}; }
  bool divides_tokens_of(size_t layer) const { return layer < tokens.size() && tokens[layer]; }
};

/// What the other ranks hold of a block: of q, k, v and attention's output, of its sums of exponentials, and of the
/// hidden values before and after GELU with their gradient. Under sequence parallelism also of its output, of what
/// enters and leaves its normalisations and additions, and of their gradients; and what is gathered before a GEMM is
/// one more array.
LayerMemory elsewhere_of_block(const LayerSpec& layer, int64_t steps, const MemoryChoice& choice, int64_t tp,
                               bool tokens_divided) {
  const int64_t typed = static_cast<int64_t>(size_of(choice.type)), d = layer.units;
  const auto others = [&](int64_t bytes) { return bytes - bytes / tp; };
  const int64_t attention = others(4 * d * typed + layer.heads * kFloatBytes), hidden = others(8 * d * typed);
  LayerMemory memory{0, steps * others(4 * d * typed), 0};
  (choice.recompute == Recompute::block ? memory.shared : memory.kept) += steps * attention;
  (choice.recompute == Recompute::none ? memory.kept : memory.shared) += steps * hidden;
  if (!tokens_divided) return memory;
  const int64_t post_norm = layer.post_norm ? 1 : 0;
  memory.kept += steps * others(2 * d * kFloatBytes);
  memory.shared += steps * (others(2 * d * kFloatBytes) - d * typed);
  (choice.recompute == Recompute::block ? memory.shared : memory.kept) +=
      steps * others((d + 2 + post_norm * d) * kFloatBytes);
  (choice.recompute == Recompute::none ? memory.kept : memory.shared) +=
      steps * others(2 * d * typed + (2 + post_norm * d) * kFloatBytes);
  return memory;
}

/// Output and its gradient; gates and cells of the units here and states of all, per step; and work of a backward pass.
LayerMemory divided_recurrent_memory(const LayerSpec& layer, const Shape& input, int64_t tp) {
  const int64_t steps = input[0], held = layer.units / tp, gates = layer.kind == LayerKind::lstm ? 4 : 3;
  LayerMemory memory = output_memory(layer, input, {});
  memory.kept += steps * (gates * held + held + layer.units) * kFloatBytes;
  memory.shared = (steps * 4 * held + 2 * held + layer.units) * kFloatBytes;
  return memory;
}

LayerMemory layer_memory(const ModelShares& shares, size_t i, const LayerRange& range) {
  const LayerSpec& layer = shares.model.layers[i];
  const Shape input = shares.model.layer_input_shape(i);
  LayerMemory memory = memory_of_layer(shares.model, i, shares.choice, range.first, range.last);
  const int64_t tp = shares.plan.mesh.tp;
  if (tp == 1) return memory;
  const bool takes_part = i > 0 && shares.divides_tokens_of(i - 1), gives_part = shares.divides_tokens_of(i);
  if (shares.roles[i] == TensorRole::column) {
    memory.kept = memory.kept * column_units(layer.units, shares.place()).rows() / layer.units;
  } else if (layer.kind == LayerKind::token_head) {
    const int64_t held = vocabulary_rows(layer.vocabulary, shares.place()).rows();
    const int64_t typed = static_cast<int64_t>(size_of(shares.choice.type));
    memory.kept -= input[0] * (padded_vocabulary(layer.vocabulary) - held) * typed;
    memory.kept += input[0] * 4 * (1 + tp) * kFloatBytes;  // parts of the loss
  } else if (layer.kind == LayerKind::transformer_block) {
    const LayerMemory elsewhere = elsewhere_of_block(layer, input[0], shares.choice, tp, takes_part);
    memory.kept -= elsewhere.kept;
    memory.shared -= elsewhere.shared;
  } else if (layer.kind == LayerKind::lstm || layer.kind == LayerKind::gru) {
    memory = divided_recurrent_memory(layer, input, tp);
  } else if (takes_part && gives_part) {  // a normalisation
    memory.kept /= tp;
  } else if (gives_part) {  // an embedding or projection, whose scratch has all tokens
    const int64_t output = count_of(shares.model.layer_output_shape(i)) * kFloatBytes;
    memory.kept -= 2 * (output - output / tp);
    memory.shared += output;
  }
  if (takes_part && !gives_part) memory.shared += count_of(input) * kFloatBytes;
  if (shares.roles[i] == TensorRole::divided) memory.fixed /= tp;
  return memory;
}

/// Bytes of a layer's parameters in the compute type.
int64_t typed_parameter_bytes(const ModelShares& shares, size_t i, const LayerRange& range) {
  ModelShares in_f32 = shares;
  in_f32.choice.type = DType::f32;
  return layer_memory(shares, i, range).fixed - layer_memory(in_f32, i, range).fixed;
}

/// Parameters, gradients and optimizer state of units in the order of the layout.
PlanMemory parameter_memory(const ParallelPlan& plan, const std::vector<UnitSize>& units, bool has_dense_layers,
                            int optimizer_arrays) {
  const int stage = zero_stage(plan.strategy);
  const int64_t whole = held_floats(units, 1), held = held_floats(units, plan.mesh.dp);
  PlanMemory memory;
  memory.parameters = whole, memory.gradients = whole;
  memory.optimizer = optimizer_arrays * (stage >= 2 ? held : stage == 1 ? whole / plan.mesh.dp : whole);
  if (stage >= 2)
    memory.gradients = held + plan_gradient_staging(units, has_dense_layers, divides_backward(plan)).floats;
  if (stage == 3) memory.parameters = held + plan_staging(units, kParameterSlots).floats;
  for (int64_t PlanMemory::*part : {&PlanMemory::parameters, &PlanMemory::gradients, &PlanMemory::optimizer})
    memory.*part *= kFloatBytes;
  memory.gradients += sync_bytes(plan, whole);
  return memory;
}

StageBytes stage_bytes(const ModelShares& shares, const LayerRange& range, bool holds_table) {
  StageBytes bytes;
  const auto add = [&](size_t layer, size_t first, size_t last, bool is_pinned = false) {
    const std::vector<ParameterSpec> held = shard_parameters(shares.model, layer, shares.roles[layer], shares.place());
    int64_t floats = 0;
    for (size_t t = first; t < std::min(last, held.size()); ++t) floats += aligned_floats(held[t].stored_floats());
    if (floats > 0) bytes.units.push_back({floats, is_pinned});
  };
  const bool tied = shares.model.layers.back().tied;
  for (size_t i = range.first; i < std::min(range.last, shares.model.layers.size()); ++i) {
    const LayerSpec& layer = shares.model.layers[i];
    const bool has_table = tied && i == 0;
    if (has_table) add(i, 0, 1, true);
    add(i, has_table ? 1 : 0, SIZE_MAX);
    if (layer.tied && !holds_table) add(0, 0, 1);  // a copy of the table
    bytes.has_dense_layers = bytes.has_dense_layers || layer.kind == LayerKind::dense;
    const LayerMemory memory = layer_memory(shares, i, range);
    bytes.per_row += memory.kept;
    bytes.fixed += memory.fixed;
    if (zero_stage(shares.plan.strategy) == 3 && !layer.tied) {
      const int64_t typed = typed_parameter_bytes(shares, i, range);
      bytes.gathered = std::max(bytes.gathered, typed);
      bytes.fixed -= typed;
    }
    bytes.shared_per_row = std::max(bytes.shared_per_row, memory.shared);
  }
  if (range.first > 0)  // what is received, and its gradient
    bytes.per_row += 2 * shares.model.layer_input_width(range.first) * kFloatBytes /
                     (shares.divides_tokens_of(range.first - 1) ? shares.plan.mesh.tp : 1);
  return bytes;
}

/// Whether a GPU computes gradients of weights on a stream of their own, as Trainer::choose_order.
bool has_weight_stream(const ParallelPlan& plan, const ModelSpec& model, MathMode math, int64_t rows) {
  if (!model.is_mlp() || plan.mesh.pp > 1 || zero_stage(plan.strategy) > 1) return false;
  if (has_small_kernels(math) && rows <= kSmallRows) return false;  // one kernel makes both gradients
  return zero_stage(plan.strategy) == 0 || plan.mesh.dp == 1 || !plan.overlap;
}

/// What cuDNN's gradient of attention takes per row, where it has one: sums of q's gradient and of a query, in f32.
int64_t attention_row_bytes(const ModelSpec& model, const MemorySetting& setting) {
  int64_t most = 0;
  if (!setting.gpu || compute_type_of(setting.math) == DType::f32) return most;
  for (size_t i = 0; i < model.layers.size(); ++i) {
    const LayerSpec& layer = model.layers[i];
    if (layer.kind == LayerKind::transformer_block)
      most = std::max(most, model.layer_input_shape(i)[0] * (layer.units + layer.heads) * kFloatBytes);
  }
  return most;
}

/// GEMM workspaces and scratch of the streams on which a GPU computes: layers, gradients of weights, compression. Where
/// attention needs more than a workspace has, the step and the timing of alternatives allocate it.
int64_t gpu_workspace(const ParallelPlan& plan, const ModelSpec& model, MathMode math, int64_t rows,
                      int64_t attention) {
  constexpr int64_t kForGemms = 64 << 20, kScratch = (1 << 20) + (1 << 18) + (1 << 14);  // CudaContext::make_memory
  const bool compresses = plan.mesh.dp > 1 && plan.compress != PlanOptions{}.compress;
  return (1 + has_weight_stream(plan, model, math, rows) + compresses) * (kForGemms + kScratch) +
         (attention > kForGemms ? 2 * attention : 0);
}

}  // namespace

MemoryChoice memory_choice(const ParallelPlan& plan, const MemorySetting& setting) {
  MemoryChoice choice{static_cast<Recompute>(plan.recompute), compute_type_of(setting.math)};
  choice.gpu = setting.gpu;
  return choice;
}

std::vector<PlanMemories::RankBytes>& PlanMemories::ranks_of(const ParallelPlan& plan) {
  const Division division{plan.mesh.tp, plan.mesh.pp,   num_stages(plan),       schedule_of(plan),
                          plan.split,   plan.recompute, plan.sequence_parallel, zero_stage(plan.strategy) == 3};
  const auto found = ranks_.find(division);
  return found != ranks_.end() ? found->second : ranks_.emplace(division, make_ranks(plan)).first->second;
}

std::vector<PlanMemories::RankBytes> PlanMemories::make_ranks(const ParallelPlan& plan) const {
  const int stages = num_stages(plan), count = plan.mesh.pp;
  std::vector<LayerRange> ranges{{}};
  if (count > 1) ranges = stage_layers(model_, stages, static_cast<StageSplit>(plan.split));
  const ModelShares shares{model_, plan, memory_choice(plan, setting_), tensor_roles(model_, ranges),
                           plan.sequence_parallel ? divided_tokens(model_) : std::vector<bool>{}};
  const auto holder = [&](int stage) { return count == 1 ? 0 : rank_of_stage(schedule_of(plan), count, stage); };
  const auto scratch_layer = [&](size_t i) {
    ScratchLayer layer{model_.layers[i], model_.layer_input_shape(i), 1, i == 0};
    const TensorRole role = shares.roles[i];
    if (role == TensorRole::column) layer.layer.units = column_units(layer.layer.units, shares.place()).rows();
    if (role == TensorRole::row) layer.input = {column_units(count_of(layer.input), shares.place()).rows()};
    if (role == TensorRole::divided) layer.shards = plan.mesh.tp;
    return layer;
  };
  std::vector<RankBytes> ranks(static_cast<size_t>(count));
  for (int s = 0; s < stages; ++s) {
    const LayerRange& range = ranges[static_cast<size_t>(s)];
    const StageBytes bytes = stage_bytes(shares, range, holder(s) == holder(0));
    RankBytes& rank = ranks[static_cast<size_t>(holder(s))];
    rank.units.insert(rank.units.end(), bytes.units.begin(), bytes.units.end());
    rank.has_dense_layers = rank.has_dense_layers || bytes.has_dense_layers;
    rank.num_stages += 1;
    rank.per_row += bytes.per_row, rank.fixed += bytes.fixed + bytes.gathered;
    rank.shared_per_row += bytes.shared_per_row;  // every stage has its own
    for (size_t i = range.first; !setting_.gpu && i < std::min(range.last, model_.layers.size()); ++i)
      rank.scratch_layers.push_back(scratch_layer(i));
  }
  for (RankBytes& rank : ranks) std::reverse(rank.units.begin(), rank.units.end());  // as the layout
  return ranks;
}

// The stages of a rank compute on one stream.
int64_t PlanMemories::scratch_of(RankBytes& rank, int64_t rows, bool accumulates) {
  const auto [found, is_new] = rank.scratch.try_emplace({rows, accumulates}, 0);
  if (!is_new) return found->second;
  CpuScratch largest;
  for (const ScratchLayer& l : rank.scratch_layers)
    largest.include(row_of(l.layer.kind).cpu_scratch(l.layer, l.input, {rows, l.shards, l.first, accumulates}));
  return found->second = largest.total();
}

PlanMemories::PlanMemories(const ModelSpec& model, const MemorySetting& setting)
    : model_(model), setting_(setting), attention_row_bytes_(attention_row_bytes(model, setting)) {}

PlanMemory PlanMemories::of(const ParallelPlan& plan) {
  const int64_t rows = most_micro_batch_rows(plan, plan.strategy == "replicated");
  std::vector<RankBytes>& ranks = ranks_of(plan);
  PlanMemory fullest;
  for (size_t i = 0; i < ranks.size(); ++i) {
    RankBytes& rank = ranks[i];
    const int64_t in_flight =
        ranks.size() == 1 ? 1
                          : peak_activations_formula(schedule_of(plan), plan.mesh.pp, static_cast<int>(plan.accumulate),
                                                     chunks_of(plan), static_cast<int>(i));
    PlanMemory memory = parameter_memory(plan, rank.units, rank.has_dense_layers, setting_.optimizer_arrays);
    memory.activations = (rank.per_row * in_flight / rank.num_stages + rank.shared_per_row) * rows + rank.fixed;
    memory.workspace =
        setting_.gpu ? gpu_workspace(plan, model_, setting_.math, rows, attention_row_bytes_ * rows / plan.mesh.tp)
                     : scratch_of(rank, rows, plan.accumulate > 1);
    if (memory.total() > fullest.total()) fullest = memory;
  }
  return fullest;
}

PlanMemory plan_memory(const ParallelPlan& plan, const ModelSpec& model, const MemorySetting& setting) {
  return PlanMemories(model, setting).of(plan);
}

}  // namespace amdahl
