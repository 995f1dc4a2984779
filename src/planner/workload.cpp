// Counts of a step by layer, and how a mesh divides them.
#include "planner/workload.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/layer_kinds.h"

namespace amdahl {
namespace {

constexpr double kTile = 8;  // widths that are multiples of it use tensor cores fully

double real(int64_t value) { return static_cast<double>(value); }

double parameters_in(const LayerSpec& layer, const Shape& input) {
  double sum = 0;
  for (const ParameterSpec& parameter : parameters_of(layer, input)) sum += real(parameter.num_parameters());
  return sum;
}

struct Place {
  const ModelSpec& model;
  const SoftwareProfile& software;
  double rows, tp;
  Recompute recompute;
};

/// Floats per row that backward reads besides the layer's input and output, where it computes in f32.
double saved_floats(const LayerSpec& layer, const Shape& input, Recompute recompute) {
  const LayerKindRow& row = row_of(layer.kind);
  const int64_t kept = row.memory(layer, input, {recompute, DType::f32}).kept / static_cast<int64_t>(sizeof(float));
  return real(std::max<int64_t>(0, kept - 2 * count_of(row.output(layer, input))));
}

// Biases and gains after the division are not divided; they are too small to matter here.
LayerWork block_work(const Place& at, const LayerSpec& layer, const Shape& input) {
  const double steps = real(input[0]), units = real(layer.units), tokens = at.rows * steps, tp = at.tp;
  LayerWork work;
  work.gemms = {{tokens, 3 * units / tp, units},
                {tokens, units, units / tp},
                {tokens, 4 * units / tp, units},
                {tokens, units, 4 * units / tp}};
  const double batch = at.rows * real(layer.heads) / tp;
  work.attention = {batch, steps, units / real(layer.heads), at.software.score_bytes};
  work.parameters = parameters_in(layer, input) / tp;
  work.bytes = tokens * units * (at.software.whole_bytes + at.software.divided_bytes / tp) +
               work.parameters * at.software.accumulate_bytes;
  work.kernels = at.software.block_kernels;
  if (static_cast<int64_t>(batch) % 4 != 0) work.extra_kernels = at.software.unfused_kernels;
  if (tp > 1) {
    work.collectives = 4;  // after attention and after the dense layers, forward and backward
    work.collective_bytes = tokens * units * at.software.element_bytes;
  }
  // What backward computes again: a third of the block's work, or of it the first dense layer.
  work.repeated_share = at.recompute == Recompute::block ? 1.0 / 3 : at.recompute == Recompute::selective ? 1.0 / 9 : 0;
  const double saved = saved_floats(layer, input, at.recompute);
  const double kept = at.recompute == Recompute::none ? 1 : at.recompute == Recompute::selective ? 0.4 : 0.06;
  work.saved_bytes = at.software.saved_bytes > 0 ? kept * tokens * units * at.software.saved_bytes
                                                 : at.rows * (saved / tp + steps * units) * at.software.element_bytes;
  return work;
}

LayerWork embedding_work(const Place& at, const LayerSpec& layer, const Shape& input) {
  LayerWork work;
  const double values = at.rows * real(input[0]) * real(layer.units);
  constexpr double kPasses = 6;  // table, positions and sum, and the same backward
  work.bytes = kPasses * values * at.software.element_bytes;
  work.parameters = parameters_in(layer, input) / at.tp;
  work.host = LayerWork::Host::input;
  work.has_input_gradient = false;
  work.saved_bytes = values * at.software.element_bytes;
  return work;
}

LayerWork head_work(const Place& at, const LayerSpec& layer, const Shape& input) {
  LayerWork work;
  const double tokens = at.rows * real(input[0]);
  const bool pads = at.tp > 1 || at.software.pads_alone;
  const double width = (pads ? real(padded_vocabulary(layer.vocabulary)) : real(layer.vocabulary)) / at.tp;
  const bool aligned = pads || layer.vocabulary % static_cast<int64_t>(kTile) == 0;
  work.gemms = {{tokens, width, real(input[1]), aligned}};
  work.bytes = tokens * width * at.software.logit_bytes;
  work.parameters = layer.tied ? 0 : parameters_in(layer, input) / at.tp;
  work.host = LayerWork::Host::head;
  work.saved_bytes = tokens * width * at.software.element_bytes;
  return work;
}

// Recurrent layers, convolutions and dense layers: one product of the layer's FLOP.
LayerWork other_work(const Place& at, const LayerSpec& layer, const Shape& input) {
  const LayerKindRow& row = row_of(layer.kind);
  const Shape output = row.output(layer, input);
  const double flops = row.forward_flops(layer, input) * at.rows;
  LayerWork work;
  work.parameters = parameters_in(layer, input) / at.tp;
  const double out = at.rows * real(count_of(output)), in = at.rows * real(count_of(input));
  if (flops > 0) {
    const double width = real(output.back()) / at.tp, rows = out / real(output.back());
    work.gemms = {{rows, width, flops / at.tp / (2 * rows * width)}};
  }
  constexpr double kForwardAndBackward = 3;
  work.bytes = kForwardAndBackward * (in + out / at.tp) * at.software.element_bytes +
               work.parameters * at.software.accumulate_bytes;
  const bool recurrent = layer.kind == LayerKind::lstm || layer.kind == LayerKind::gru;
  work.kernels = 3 + (recurrent ? 2 * real(input[0]) : 0) + (layer.dropout > 0 ? 2 : 0);
  if (at.tp > 1 && flops > 0) work.collectives = 1, work.collective_bytes = out * at.software.element_bytes;
  const double saved = saved_floats(layer, input, Recompute::none);
  work.saved_bytes = (at.rows * saved + out) * at.software.element_bytes;
  return work;
}

LayerWork work_of_layer(const Place& at, size_t index) {
  const LayerSpec& layer = at.model.layers[index];
  const Shape input = at.model.layer_input_shape(index);
  LayerWork work;
  switch (layer.kind) {
    case LayerKind::transformer_block:
      work = block_work(at, layer, input);
      break;
    case LayerKind::embedding:
      work = embedding_work(at, layer, input);
      break;
    case LayerKind::token_head:
      work = head_work(at, layer, input);
      break;
    default:
      work = other_work(at, layer, input);
  }
  if (index == 0) work.has_input_gradient = false;
  return work;
}

bool at_end(const LayerSpec& layer) { return layer.kind != LayerKind::transformer_block; }

// Layers of a pipeline stage: transformer blocks are divided evenly; what precedes and follows them stays at the ends.
// Models without blocks are divided evenly by their number of layers.
std::vector<int> stage_of_layers(const ModelSpec& model, int pp) {
  const auto blocks = static_cast<int>(
      std::count_if(model.layers.begin(), model.layers.end(), [](const LayerSpec& layer) { return !at_end(layer); }));
  const int total = blocks > 0 ? blocks : static_cast<int>(model.layers.size());
  std::vector<int> stages;
  int seen = 0;
  for (const LayerSpec& layer : model.layers) {
    const bool counts = blocks == 0 || !at_end(layer);
    const int position = counts ? seen++ : std::min(seen, total - 1);
    stages.push_back(std::min(pp - 1, static_cast<int>(static_cast<int64_t>(position) * pp / total)));
  }
  return stages;
}

bool same_layer(const ModelSpec& model, size_t a, size_t b) {
  const LayerSpec &x = model.layers[a], &y = model.layers[b];
  return x.kind == y.kind && x.kind == LayerKind::transformer_block && x.units == y.units && x.heads == y.heads;
}

std::string why_tensor_infeasible(const ModelSpec& model, int tp) {
  for (size_t i = 0; i < model.layers.size(); ++i) {
    const LayerSpec& layer = model.layers[i];
    if (layer.kind == LayerKind::transformer_block && layer.heads % tp != 0)
      return fmt::format("{} attention heads are not a multiple of tp {}", layer.heads, tp);
    if (layer.kind == LayerKind::dense && i + 1 < model.layers.size() && layer.units % tp != 0)
      return fmt::format("layer {} has {} units, not a multiple of tp {}", i, layer.units, tp);
    if (layer.kind != LayerKind::transformer_block && layer.kind != LayerKind::dense &&
        layer.kind != LayerKind::embedding && layer.kind != LayerKind::token_head &&
        layer.kind != LayerKind::layer_norm)
      return fmt::format("layers of kind {} cannot be divided by tp", row_of(layer.kind).name);
  }
  return "";
}

}  // namespace

SoftwareProfile amdahl_profile() {
  SoftwareProfile profile;
  profile.name = "amdahl";
  profile.score_bytes = 0;
  profile.whole_bytes = 4 * 30;
  profile.divided_bytes = 4 * 16;
  profile.logit_bytes = 4 * 4;
  profile.block_kernels = 40;
  return profile;
}

SoftwareProfile megatron_profile() {
  SoftwareProfile profile;
  profile.name = "megatron";
  profile.element_bytes = 2;
  // Per score, fp16 with byte masks: softmax 4 + 6, dropout 5 + 5, reads and writes of the products 12.
  profile.score_bytes = 32;
  // Two normalisations 8 + 20, bias and dropout and residual 14 + 22, gradients of biases 4.
  profile.whole_bytes = 68;
  // GELU with bias 16 + 24 + 8, bias of q, k and v 12 + 6, transposes 16 + 16.
  profile.divided_bytes = 98;
  profile.accumulate_bytes = 10;  // read fp16, read and write fp32
  profile.logit_bytes = 24;       // cross-entropy in fp32 of fp16 logits
  profile.block_kernels = 58;
  profile.unfused_kernels = 10;
  profile.pads_alone = false;
  profile.gradient_bytes = 2;
  profile.state_bytes = 2 + 2 + 4 + 4 + 4 + 4;
  profile.optimizer_state_bytes = 12;
  profile.sum_gradient_bytes = 4;
  profile.saved_bytes = 34;  // Korthikanti et al., 2022, arXiv:2205.05198, without the scores
  return profile;
}

Feasibility mesh_feasible(const ModelSpec& model, const ParallelPlan& plan) {
  const auto no = [](std::string why) { return Feasibility{false, std::move(why)}; };
  const Mesh& mesh = plan.mesh;
  if (mesh.dp < 1 || mesh.tp < 1 || mesh.pp < 1) return no("the sizes of a mesh are at least 1");
  const int64_t rows = static_cast<int64_t>(mesh.dp) * plan.accumulate;
  if (plan.accumulate < 1 || plan.global_batch < rows || plan.global_batch % rows != 0)
    return no(fmt::format("a global batch of {} cannot be divided among dp {} in {} micro-batches", plan.global_batch,
                          mesh.dp, plan.accumulate));
  if (mesh.tp > 1)
    if (std::string why = why_tensor_infeasible(model, mesh.tp); !why.empty()) return no(why);
  const auto blocks =
      std::count_if(model.layers.begin(), model.layers.end(), [](const LayerSpec& layer) { return !at_end(layer); });
  const int64_t parts = blocks > 0 ? blocks : static_cast<int64_t>(model.layers.size());
  if (mesh.pp > parts) return no(fmt::format("{} layers cannot be divided among pp {}", parts, mesh.pp));
  return {};
}

void set_step(const ParallelPlan& plan, Workload& work) {
  work.mesh = plan.mesh;
  work.micro_batches = plan.accumulate;
  work.zero_stage = plan.strategy.starts_with("zero") ? plan.strategy.back() - '0' : 0;
  work.overlap = plan.overlap && plan.strategy != "dp";
  work.bucket_bytes = real(plan.bucket_bytes);
}

Workload make_workload(const ModelSpec& model, const ParallelPlan& plan, const SoftwareProfile& software) {
  const Feasibility feasible = mesh_feasible(model, plan);
  if (!feasible.ok)
    throw Error(Cause::usage, fmt::format("{}: {}", model.name, feasible.reason), "another mesh or batch");
  Workload work;
  work.micro_rows = real(plan.global_batch) / real(plan.mesh.dp * plan.accumulate);
  set_step(plan, work);
  work.gradient_bytes = software.gradient_bytes;
  work.state_bytes = software.state_bytes;
  work.optimizer_state_bytes = software.optimizer_state_bytes;
  work.sum_gradient_bytes = software.sum_gradient_bytes;
  work.flops = model.step_flops(plan.global_batch);
  const Place at{model, software, work.micro_rows, static_cast<double>(plan.mesh.tp),
                 static_cast<Recompute>(plan.recompute)};
  const std::vector<int> stage_of = stage_of_layers(model, plan.mesh.pp);
  work.stages.resize(static_cast<size_t>(plan.mesh.pp));
  double tied = 0;  // the table of the first layer, of which the last stage has a copy
  for (size_t i = 0; i < model.layers.size(); ++i) {
    StageWork& stage = work.stages[static_cast<size_t>(stage_of[i])];
    if (i > 0 && stage_of[i] == stage_of[i - 1] && same_layer(model, i - 1, i)) {
      stage.layers.back().repeats += 1;
      stage.parameters += stage.layers.back().parameters;
    } else {
      stage.layers.push_back(work_of_layer(at, i));
      stage.parameters += stage.layers.back().parameters;
    }
    if (model.layers[i].kind == LayerKind::embedding)
      tied = real(model.layers[i].vocabulary * model.layers[i].units) / at.tp;
    if (model.layers[i].tied && plan.mesh.pp > 1) stage.parameters += tied;
    if (i > 0 && stage_of[i] != stage_of[i - 1])
      work.transfer_bytes =
          std::max(work.transfer_bytes, work.micro_rows * real(model.layer_input_width(i)) * software.element_bytes);
  }
  return work;
}

}  // namespace amdahl
