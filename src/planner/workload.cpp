// Counts of a step by layer, and how a mesh divides them.
#include "planner/workload.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "plan/block_kind.h"
#include "plan/plan_rules.h"
#include "plan/shards.h"

namespace amdahl {
namespace {

constexpr double kTile = 8;             // widths that are multiples of it use tensor cores fully
constexpr double kLossBytes = 16;       // of a token, which ranks that divide the vocabulary exchange
constexpr double kSumBytes = 4;         // of a gradient's sum, which the next chunk of logits reads
constexpr double kChunkKernels = 4;     // launches for a chunk of logits: three products and the loss
constexpr double kAttentionTile = 128;  // scores of a tile on the diagonal are all computed

double real(int64_t value) { return static_cast<double>(value); }

double parameters_in(const ModelSpec& model, size_t layer, TensorRole role, const TensorPlace& place) {
  double sum = 0;
  for (const ParameterSpec& parameter : shard_parameters(model, layer, role, place))
    sum += real(parameter.num_parameters());
  return sum;
}

/// A layer, and how the plan divides it.
struct Place {
  const ModelSpec& model;
  const SoftwareProfile& software;
  double rows;
  TensorPlace tensor;
  TensorRole role;
  Recompute recompute;
  bool one_stream;  // of one stage of several, or of a model that is no MLP (gradient_order): backward computes
                    // gradients of inputs and weights one after another
  double adding;    // the part of the micro-batches whose gradients are added to those before
  double tp() const { return role == TensorRole::whole ? 1.0 : tensor.size; }
};

// What backward computes again (TransformerBlock::compute_again), of work of which a third is forward: selective the
// first dense layer; block all products but the second dense layer, unless normalisation comes last.
void repeat_block(const Place& at, const LayerSpec& layer, const BlockWidths& widths, LayerWork& work) {
  if (at.recompute == Recompute::none) return;
  const bool all = at.recompute == Recompute::block;
  if (all && at.software.repeats_whole) {
    work.repeated_share = work.repeated_attention = 1.0 / 3, work.repeated_collectives = 1.0 / 2;
    work.repeated_kernels = work.kernels / 3;
    return;
  }
  const int64_t down = layer.post_norm ? 0 : widths.units * widths.hidden;
  const int64_t repeated = all ? widths.dense_weights() - down : widths.units * widths.up();
  work.repeated_share = real(repeated) / real(3 * widths.dense_weights());
  work.repeated_attention = all ? 1.0 / 3 : 0;
  work.repeated_collectives = !all ? 0 : layer.post_norm ? 1.0 / 2 : 1.0 / 4;
  work.repeated_kernels = !all ? (layer.post_norm ? 4 : 3) : (layer.post_norm ? 9 : 6);
}

LayerWork block_work(const Place& at, const LayerSpec& layer, const Shape& input) {
  const double steps = real(input[0]), units = real(layer.units), tokens = at.rows * steps, tp = at.tp();
  const BlockWidths widths = block_widths(layer);
  LayerWork work;
  work.gemms = {{tokens, real(widths.qkv()) / tp, units},
                {tokens, units, real(widths.attended()) / tp},
                {tokens, real(widths.up()) / tp, units},
                {tokens, units, real(widths.hidden) / tp}};
  const double batch = at.rows * real(layer.heads) / tp;
  for (GemmWork& gemm : work.gemms) gemm.element_bytes = at.software.typed_bytes;
  work.attention = {batch, steps, real(widths.head_dim), at.software.score_bytes};
  work.attention.tile = at.software.attention_tile;
  if (layer.causal && at.software.skips_causal) work.attention.share = std::min(1.0, (1 + kAttentionTile / steps) / 2);
  work.bytes = tokens * units * (at.software.whole_bytes + at.software.divided_bytes / tp);
  work.kernels = at.software.block_kernels + at.adding * at.software.block_add_kernels;
  if (static_cast<int64_t>(batch) % 4 != 0) work.extra_kernels = at.software.unfused_kernels;
  if (tp > 1) {
    work.collectives = 4;  // after attention and after the dense layers, forward and backward
    work.collective_bytes = tokens * units * at.software.typed_bytes;
  }
  repeat_block(at, layer, widths, work);
  return work;
}

LayerWork embedding_work(const Place& at, const LayerSpec& layer, const Shape& input) {
  LayerWork work;
  const double values = at.rows * real(input[0]) * real(layer.units);
  constexpr double kPasses = 6;  // table, positions and sum, and the same backward
  work.bytes = kPasses * values * at.software.element_bytes;
  work.host = LayerWork::Host::input;
  work.has_input_gradient = false;
  if (at.tp() > 1 && at.software.sums_vocabulary) work.collectives = 1, work.collective_bytes = values * 4;
  return work;
}

LayerWork head_work(const Place& at, const LayerSpec& layer, const Shape& input) {
  LayerWork work;
  const double tokens = at.rows * real(input[0]);
  const bool pads = at.tp() > 1 || at.software.pads_alone;
  const double width = (pads ? real(padded_vocabulary(layer.vocabulary)) : real(layer.vocabulary)) / at.tp();
  const bool aligned = pads || layer.vocabulary % static_cast<int64_t>(kTile) == 0;
  const double weights = width * real(input[1]);
  double chunks = 1;
  if (at.software.chunks_logits) {
    const auto token_bytes = static_cast<int64_t>(width * at.software.typed_bytes);
    chunks = std::ceil(tokens / real(head_chunk(layer, static_cast<int64_t>(tokens), token_bytes)));
  }
  work.gemms = {{tokens / chunks, width, real(input[1]), aligned}};
  work.gemms[0].count = chunks;
  work.gemms[0].element_bytes = at.software.typed_bytes;
  work.bytes = tokens * width * at.software.logit_bytes + weights * at.software.converted_bytes +
               (chunks - 1) * weights * kSumBytes;
  work.kernels = (chunks - 1) * (at.software.converted_bytes > 0 ? kChunkKernels + 1 : kChunkKernels);
  work.host = LayerWork::Host::head;
  if (at.tp() > 1 && at.software.sums_vocabulary)
    work.collectives = 2, work.collective_bytes = tokens * (real(input[1]) * 4 + kLossBytes) / 2;
  return work;
}

// All steps' inputs in one product, then a product for each step, whose weights have one gradient of all steps
// (ops/recurrent). Element-wise kernels read and write gates and two states, forward and backward.
LayerWork stepwise_work(const Place& at, const LayerSpec& layer, const Shape& input, bool first) {
  constexpr double kPasses = 6;
  const double steps = real(input[0]), units = real(layer.units), tp = at.tp();
  const double gates = layer.kind == LayerKind::lstm ? 4 : 3, width = gates * units / tp;
  LayerWork work;
  GemmWork inputs{at.rows * steps, width, real(input[1])}, states{at.rows, width, units};
  inputs.input_gradient = !first;
  states.count = steps, states.weight_rows = at.rows * steps;
  work.gemms = {inputs, states};
  work.bytes = kPasses * at.rows * steps * (width + 2 * units / tp) * at.software.element_bytes;
  work.kernels = 3 + 4 * steps;
  if (tp > 1) work.collectives = 2 * steps, work.collective_bytes = at.rows * units * at.software.element_bytes;
  return work;
}

// One kernel for the sequence each direction (ops/recurrent), and products over all steps: gradients of
// both weights are one product with up to kMostInputs inputs, which the forward kernel multiplies itself. Four gates of
// a unit are kept also of a GRU. Bytes: gates, states, an LSTM's cells, written and read, and gradients of the gates.
LayerWork persistent_work(const Place& at, const LayerSpec& layer, const Shape& input, bool first) {
  constexpr double kMostInputs = 64, kTileRows = 8, kBlockUnits = 32, kFewUnits = 128, kMostUnits = 256;
  const double steps = real(input[0]), inputs = real(input[1]), units = real(layer.units), rows = at.rows * steps;
  const double e = at.software.typed_bytes;
  const bool few_inputs = inputs <= kMostInputs;
  LayerWork work;
  GemmWork weights{rows, 4 * units, units + (few_inputs ? kMostInputs : 0)}, outer{rows, 4 * units, inputs};
  weights.forward = weights.input_gradient = false;
  outer.forward = outer.weight_gradient = !few_inputs, outer.input_gradient = !first;
  weights.element_bytes = outer.element_bytes = e;
  work.gemms = {weights, outer};
  work.recurrent = {steps, std::ceil(at.rows / kTileRows), (units <= kFewUnits ? kFewUnits : kMostUnits) / kBlockUnits};
  work.bytes = rows * (units * (14 * e + (layer.kind == LayerKind::lstm ? 8 : 0)) + inputs * 4);
  // Inputs, sequence; sequence, biases, weights, their order; the input's weights in that order and its gradient.
  work.kernels = 6 + (few_inputs ? 0 : 2) + (first ? 0 : 2);
  return work;
}

LayerWork recurrent_work(const Place& at, const LayerSpec& layer, const Shape& input, bool first) {
  const bool persistent = at.tp() == 1 && layer.units <= at.software.persistent_units;
  return persistent ? persistent_work(at, layer, input, first) : stepwise_work(at, layer, input, first);
}

// Convolutions, projections and dense layers: one product of the layer's FLOP. Of a column-parallel layer the
// ranks sum the gradient of its input, of a row-parallel one its output, of another divided one both.
LayerWork other_work(const Place& at, size_t index, const Shape& input, double parameters) {
  const LayerSpec& layer = at.model.layers[index];
  const LayerKindRow& row = row_of(layer.kind);
  const Shape output = row.output(layer, input);
  const double flops = row.forward_flops(layer, input) * at.rows, tp = at.tp();
  const bool whole_input = at.role != TensorRole::row, whole_output = at.role != TensorRole::column;
  LayerWork work;
  double out = at.rows * real(count_of(output)), in = at.rows * real(count_of(input));
  if (flops > 0) {
    const double width = real(output.back()) / (at.role == TensorRole::row ? 1 : tp), rows = out / real(output.back());
    work.gemms = {{rows, width, flops / tp / (2 * rows * width)}};
  }
  if (tp > 1 && flops > 0) {
    work.collectives = (at.role == TensorRole::divided ? 2 : 1);
    work.collective_bytes = (at.role == TensorRole::column ? in : out) * at.software.element_bytes;
  }
  if (!whole_input) in /= tp;
  if (!whole_output) out /= tp;
  const SoftwareProfile& software = at.software;
  constexpr double kForwardAndBackward = 3;
  const bool dense = layer.kind == LayerKind::dense;
  work.bytes = (dense ? software.dense_bytes : kForwardAndBackward * software.element_bytes) * (in + out) +
               parameters * (software.accumulate_bytes + at.adding * software.added_bytes);
  if (dense) {
    if (layer.dropout > 0) work.bytes += software.dropout_bytes * out;
    if (index > 0) work.bytes += software.mask_bytes * in;
    const bool strides = software.transposed_bytes > 0 && at.rows >= software.transposed_rows;
    const bool fits = out * software.element_bytes <= software.most_transposed_bytes;
    if (strides && fits) work.bytes += software.transposed_bytes * out;
    for (GemmWork& gemm : work.gemms) gemm.strided_weights = software.transposed_bytes > 0 && !(strides && fits);
  }
  const bool small = dense && at.rows <= at.software.small_rows;
  work.splits_gradient = dense && !small;
  for (GemmWork& gemm : work.gemms) gemm.few_rows = small, gemm.converts = software.converts_f32 && dense;
  // Kernels of tensor cores copy 16 bytes of a row at once.
  if (dense && !small && software.transposed_rows > 0 && input.back() % 4 != 0)
    for (GemmWork& gemm : work.gemms) gemm.aligned = false;
  if (layer.kind == LayerKind::projection)
    for (GemmWork& gemm : work.gemms) gemm.element_bytes = software.typed_bytes;
  work.kernels = small ? 2 : software.dense_kernels + (layer.dropout > 0 ? software.dropout_kernels : 0);
  if (dense && !small) work.kernels += at.adding * software.dense_add_kernels;
  if (dense && !small && at.one_stream) work.kernels += software.weight_kernels;
  if (dense && !small && !at.one_stream && software.weight_kernels > 0) work.events = 1;  // its gradient is done
  if (layer.kind == LayerKind::projection && software.projection_kernels > 0)
    work.kernels = software.projection_kernels + (index > 0 ? 1 : 0);
  return work;
}

LayerWork work_of_layer(const Place& at, size_t index) {
  const LayerSpec& layer = at.model.layers[index];
  const Shape input = at.model.layer_input_shape(index);
  const double parameters = parameters_in(at.model, index, at.role, at.tensor);
  LayerWork work;
  switch (layer.kind) {
    case LayerKind::transformer_block:
      work = block_work(at, layer, input);
      work.bytes += parameters *
                    (at.software.accumulate_bytes + at.software.converted_bytes + at.adding * at.software.added_bytes);
      break;
    case LayerKind::embedding:
      work = embedding_work(at, layer, input);
      break;
    case LayerKind::token_head:
      work = head_work(at, layer, input);
      break;
    case LayerKind::lstm:
    case LayerKind::gru:
      work = recurrent_work(at, layer, input, index == 0);
      break;
    default:
      work = other_work(at, index, input, parameters);
  }
  work.parameters = parameters;
  // Of schedules whose backward is in two parts the first one computes both gradients, except of dense layers; it
  // leaves out the model's first layer (Model::backward_inputs). Of three products one is the gradient of the weights.
  work.weight_share = index == 0 ? 2.0 / 3 : layer.kind == LayerKind::dense ? 1.0 / 3 : 0;
  for (GemmWork& gemm : work.gemms) gemm.splits_sums = gemm.reads_ahead = at.software.splits_sums;
  const bool within = layer.kind != LayerKind::dense && layer.kind != LayerKind::projection &&
                      layer.kind != LayerKind::embedding;  // as step_flops
  if (index > 0 || within) return work;
  work.has_input_gradient = false;
  const bool dense = layer.kind == LayerKind::dense;
  if (!work.gemms.empty() && !work.gemms[0].few_rows && (dense || at.software.projection_kernels == 0))
    work.kernels -= 1;  // of that gradient
  // The second stream's last gradients are those of this layer, which nothing is left to hide.
  if (work.events > 0) work.kernels += at.software.weight_kernels - 1, work.events += 1;  // and the join
  if (at.role == TensorRole::column) work.collectives = 0;
  return work;
}

bool same_layer(const ModelSpec& model, size_t a, size_t b) {
  const LayerSpec &x = model.layers[a], &y = model.layers[b];
  return x.kind == LayerKind::transformer_block && x == y;
}

// Of a stage and its transfers for a micro-batch (parallel/pipeline/stage_runner.cpp): with a stage below, the input
// arrived, its gradient is done, that of the slot's previous micro-batch was sent; with one above, the output is done
// and its gradient arrived.
double stage_events(size_t stage, size_t stages) { return (stage > 0 ? 3 : 0) + (stage + 1 < stages ? 2 : 0); }

StageWork stage_work(Place at, const LayerRange& range, const std::vector<TensorRole>& roles) {
  StageWork stage;
  for (size_t i = range.first; i < std::min(range.last, at.model.layers.size()); ++i) {
    at.role = roles[i];
    if (i > range.first && same_layer(at.model, i - 1, i))
      stage.layers.back().repeats += 1;
    else
      stage.layers.push_back(work_of_layer(at, i));
    stage.parameters += stage.layers.back().parameters;
  }
  return stage;
}

}  // namespace

/// Throws Error{usage} for a plan whose steps have parts that no term here describes.
void require_terms(const ParallelPlan& plan) {
  const char* missing = nullptr;
  if (plan.sequence_parallel) missing = "sequence parallelism";
  if (plan.local_sgd > 0) missing = "local SGD";
  if (plan.compress > 0) missing = "compressed gradients";
  if (plan.async_steps > 0) missing = "late updates";
  if (plan.shares != kEqualShares) missing = "unequal shares";
  if (plan.virtual_shards > 0) missing = "virtual shards";
  if (missing)
    throw Error(Cause::usage, fmt::format("plan {}: the planner has no term for {}", format_plan(plan), missing),
                "leave it out, or measure it with `study plans=...`");
}

void set_step(const ParallelPlan& plan, Workload& work) {
  require_terms(plan);
  work.mesh = plan.mesh;
  work.micro_batches = plan.accumulate;
  work.schedule = schedule_of(plan), work.chunks = plan.mesh.pp > 1 ? chunks_of(plan) : 1;
  work.zero_stage = plan.strategy.starts_with("zero") ? plan.strategy.back() - '0' : 0;
  work.overlap = plan.overlap && plan.strategy != "dp";
  work.bucket_bytes = real(plan.bucket_bytes);
}

Workload make_workload(const ModelSpec& model, const ParallelPlan& plan, const SoftwareProfile& software) {
  require_plan_feasible(plan, model);
  if (plan.global_batch < 1)
    throw Error(Cause::usage, fmt::format("plan {} without a batch", format_plan(plan)), "a `global_batch`");
  Workload work;
  set_step(plan, work);
  work.micro_rows = real(most_micro_batch_rows(plan, false));
  work.gradient_bytes = software.gradient_bytes;
  work.flops = step_flops(model, plan.global_batch);
  std::vector<LayerRange> ranges{{}};
  if (plan.mesh.pp > 1) ranges = stage_layers(model, num_stages(plan), static_cast<StageSplit>(plan.split));
  const std::vector<TensorRole> roles = tensor_roles(model, ranges);
  const Place at{model,
                 software,
                 work.micro_rows,
                 {plan.mesh.tp, 0},
                 TensorRole::whole,
                 static_cast<Recompute>(plan.recompute),
                 plan.mesh.pp > 1 || !model.is_mlp(),
                 1 - 1.0 / static_cast<double>(plan.accumulate)};
  for (const LayerSpec& layer : model.layers) {
    work.has_unseen |= layer.kind == LayerKind::conv || layer.kind == LayerKind::residual_block;
    work.has_recurrent |= layer.kind == LayerKind::lstm || layer.kind == LayerKind::gru;
  }
  const auto holder = [&](size_t stage) {
    return plan.mesh.pp == 1 ? 0 : rank_of_stage(work.schedule, plan.mesh.pp, static_cast<int>(stage));
  };
  for (size_t s = 0; s < ranges.size(); ++s) {
    work.stages.push_back(stage_work(at, ranges[s], roles));
    for (size_t i = ranges[s].first; i < std::min(ranges[s].last, model.layers.size()); ++i) {
      if (!model.layers[i].tied) continue;
      const double table = real(shard_parameters(model, 0, roles[0], at.tensor)[0].num_parameters());
      work.stages[0].layers[0].pinned = table;
      // The tied output layer has a copy of the table where another rank holds the embedding.
      if (holder(s) != holder(0)) work.stages[s].parameters += table;
    }
    if (s > 0)
      work.transfer_bytes =
          std::max(work.transfer_bytes, work.micro_rows * real(model.layer_input_width(ranges[s].first)) *
                                            software.element_bytes / (software.divides_transfers ? plan.mesh.tp : 1));
  }
  if (work.mesh.pp > 1 && software.weight_kernels > 0)
    for (size_t s = 0; s < work.stages.size(); ++s)
      work.stages[s].layers.back().events += stage_events(s, ranges.size());
  LayerWork& last = work.stages.back().layers.back();
  if (model.layers.back().kind != LayerKind::token_head) last.kernels += software.loss_kernels;
  return work;
}

}  // namespace amdahl
