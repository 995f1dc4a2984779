// A rank's part of a model under a plan, in this order: tensor parallelism, recomputation, pipeline stages, optimizer,
// data parallelism.
#include "train/assemble.h"

#include "parallel/tensor/dense.h"
#include "plan/plan_rules.h"
#include "train/device_memory.h"

namespace amdahl {
namespace {

std::vector<LayerRange> stages_of(const ModelSpec& model, const ParallelPlan& plan) {
  if (plan.mesh.pp == 1) return {LayerRange{0, model.layers.size()}};
  return stage_layers(model, num_stages(plan), static_cast<StageSplit>(plan.split));
}

// Smaller GEMMs are less efficient, so they are split only when communication can overlap them.
int64_t piece_bytes(const ParallelPlan& plan, const StrategyRow& row) {
  return sends_during_backward(row, plan) ? plan.bucket_bytes : kWholeLayers;
}

void check_before_sync(const TrainingParts& parts) {
  const Feasibility feasible = parts.row.feasible(parts.options.plan);
  if (!feasible.ok) throw Error(Cause::usage, feasible.reason, "a larger batch, or fewer devices");
  if (parts.options.launch == LaunchMode::graph) {
    const Feasibility graphs = parts.rank.device.supports_graphs();
    if (!graphs.ok) throw Error(Cause::usage, "launch mode graph: " + graphs.reason, "`launch=eager`");
  }
  if (parts.optimizer->loss_scale() && parts.divided.is_divided())
    throw Error(Cause::usage, "math fp16: the loss of a model that is divided among devices is not scaled yet",
                "`math=bf16`, or a plan without tp and pp");
}

/// Launch mode, math and shares that this plan's steps do not have.
void check_with_sync(const TrainingParts& parts) {
  const ParallelPlan& plan = parts.options.plan;
  if (parts.options.launch == LaunchMode::graph && parts.sync->period() > 1)
    throw Error(Cause::usage, "launch mode graph: the steps of this plan are not all alike", "`launch=eager`");
  if (plan.shares == kAutoShares && plan.mesh.dp > 1)
    throw Error(Cause::internal, "shares=auto reached a trainer before the speeds of the devices were measured");
  if (parts.optimizer->loss_scale() && plan.mesh.dp > 1 &&
      (plan.compress > 0 || plan.local_sgd > 0 || plan.async_steps > 0))
    throw Error(Cause::usage, "math fp16 scales the loss, and this plan rounds, averages or delays gradients",
                "`math=bf16`, or a plan without compress, local-sgd and async");
}

}  // namespace

ModelPart part_of(const ModelSpec& model, const ParallelPlan& plan, int rank) {
  const MeshPlace place = place_of(plan.mesh, rank);
  const std::vector<LayerRange> stages = stages_of(model, plan);
  ModelPart part{{}, tensor_roles(model, stages), {plan.mesh.tp, place.tp}};
  for (size_t s = 0; s < stages.size(); ++s)
    if (plan.mesh.pp == 1 || rank_of_stage(schedule_of(plan), plan.mesh.pp, static_cast<int>(s)) == place.pp)
      part.stages.push_back(stages[s]);
  return part;
}

DividedModel::DividedModel(const DividedContext& context)
    : context_(context), place_(place_of(context.plan.mesh, context.world.rank())) {
  const Deadline deadline = Deadline::after_seconds(context.timeout_seconds);
  const ParallelPlan& plan = context.plan;
  ModelPart part;
  if (plan.mesh.tp > 1 || plan.mesh.pp > 1) {
    require_plan_feasible(plan, context.model);
    mesh_.emplace(context.world, plan.mesh, deadline);
    replica_ = context.world.split(place_.dp, context.world.rank(), deadline);
    part = part_of(context.model, plan, context.world.rank());
  }
  LayerFactory make_layer = nullptr;  // tensor parallelism
  if (plan.mesh.tp > 1) {
    tensor_.emplace(mesh_->tp());
    make_layer =
        tensor_layers(context.model, part.roles, {context.device, context.ops, mesh_->tp(), tensor_->silent()});
  }
  TensorGroup* const tensor = tensor_ ? &*tensor_ : nullptr;
  const std::vector<bool> tokens =
      plan.sequence_parallel && mesh_ ? divided_tokens(context.model) : std::vector<bool>{};
  const auto recompute = static_cast<Recompute>(plan.recompute);
  const int zero = zero_stage(plan.strategy);
  const auto storage = std::make_shared<ParameterStorage>(
      context.device, mesh_ ? make_layout(context.model, part) : make_layout(context.model),
      DataShards{plan.mesh.dp, place_.dp, zero >= 2, zero == 3, divides_backward(plan)});
  const RowRange rows = data_share(plan, place_.dp);
  if (plan.mesh.pp == 1) {  // no pipeline
    const int64_t max_rows = mesh_ ? even_share(rows.rows(), plan.accumulate, 0).rows()
                                   : most_micro_batch_rows(plan, find_strategy(plan.strategy).full_batch_everywhere);
    model_ = std::make_unique<Model>(context.model, context.device, context.ops,
                                     ModelOptions{.max_rows = max_rows,
                                                  .seed = context.seed,
                                                  .recompute = recompute,
                                                  .make_layer = make_layer,
                                                  .tensor = tensor,
                                                  .roles = part.roles,
                                                  .divided_tokens = tokens,
                                                  .storage = storage});
    return;
  }
  const PipelineSchedule schedule =
      make_schedule(schedule_of(plan), plan.mesh.pp, static_cast<int>(plan.accumulate), chunks_of(plan));
  runner_ = std::make_unique<StageRunner>(
      context.model, schedule,
      StageContext{context.device, context.ops, mesh_->pp(), context.timeout_seconds, &context.compute},
      StageOptions{.global_batch = rows.rows(),
                   .seed = context.seed,
                   .layers = stages_of(context.model, plan),
                   .first_row = rows.begin,
                   .all_rows = plan.global_batch,
                   .recompute = recompute,
                   .storage = storage,
                   .make_layer = make_layer,
                   .tensor = tensor,
                   .roles = part.roles,
                   .divided_tokens = tokens});
  connect_tables(deadline);
}

void DividedModel::connect_tables(Deadline deadline) {
  const ModelSpec& spec = context_.model;
  const Mesh& mesh = context_.plan.mesh;
  const int last = rank_of_stage(schedule_of(context_.plan), mesh.pp, num_stages(context_.plan) - 1);
  if (!spec.layers.back().tied || last == 0) return;  // the first stage is on pipeline rank 0
  const bool takes_part = place().pp == 0 || place().pp == last;
  tables_ = context_.world.split(takes_part ? place().dp * mesh.tp + place().tp : -1, place().pp, deadline);
}

TrainingParts::TrainingParts(const RankContext& rank_context, const TrainerOptions& trainer_options)
    : rank(rank_context),
      options(trainer_options),
      row(find_strategy(options.plan.strategy)),
      compute(rank.device.make_stream("compute")),
      second(rank.ops->gains_from_second_stream() ? rank.device.make_stream("weights") : nullptr),
      comm(rank.device.make_stream("comm")),
      divided({options.model, options.plan, rank.device, *rank.ops, rank.communicator, *compute, options.seed,
               options.timeout_seconds}),
      model(divided.model()),
      optimizer(make_optimizer(options.hyper, rank.device, *rank.ops, model, owned(), decaying_ranges(model.layout()))),
      order(gradient_order(options.model, options.plan, rank.ops->gemm(), second != nullptr)),
      pieces(make_pieces(model.layout(), piece_bytes(options.plan, row))) {
  check_before_sync(*this);
  if (const LossScale* scale = optimizer->loss_scale()) model.scale_gradient(&scale->scale);
  if (zero_stage(options.plan.strategy) > 0) changes = optimizer->sum_changes();  // before updates are planned
  sync = row.build({options.plan, rank.device, *rank.ops, model, divided.shared(*optimizer), divided.dp(), *compute,
                    *comm, options.timeout_seconds, options.keep_gradients, divided.shared_table()});
  check_with_sync(*this);
  if (row.data_on_root) {
    const int64_t rows = data_share(options.plan, divided.place().dp).rows();
    staged_features = rank.device.allocate(float_bytes(rows * options.model.input_width));
    staged_targets = rank.device.allocate(float_bytes(rows * options.model.target_width()));
  }
  if (has_unaligned_images(options.model))
    aligned_features = rank.device.allocate(float_bytes(most_rows() * options.model.input_width));
}

void TrainingParts::synchronize() {
  compute->synchronize(deadline());
  comm->synchronize(deadline());
}

void TrainingParts::finish_updates() {
  sync->finish_updates();
  synchronize();
}

}  // namespace amdahl
