#include "train/trainer.h"

#include <fmt/format.h>

#include <algorithm>

#include "device/profiler_ranges.h"
#include "train/device_memory.h"

namespace amdahl {
namespace {

// Smaller GEMMs are less efficient, so they are split only when communication can overlap them.
int64_t piece_bytes(const ParallelPlan& plan, const StrategyRow& row) {
  return sends_during_backward(row, plan) ? plan.bucket_bytes : kWholeLayers;
}

/// " transformer_block"; empty in a model of dense layers alone.
std::string kind_text(const ModelSpec& model, size_t layer) {
  return model.is_mlp() ? std::string() : fmt::format(" {}", row_of(model.layers[layer].kind).name);
}

/// What data-parallel ranks divide of parameters and gradients.
DataShards shards_of(const ParallelPlan& plan, int dp_rank) {
  const int stage = zero_stage(plan.strategy);
  return {plan.mesh.dp, dp_rank, stage >= 2, stage == 3};
}

std::unique_ptr<DividedModel> make_divided(const RankContext& rank, const TrainerOptions& options, Stream& compute) {
  if (options.plan.mesh.tp == 1 && options.plan.mesh.pp == 1) return nullptr;
  return std::make_unique<DividedModel>(DividedContext{options.model, options.plan, rank.device, *rank.ops,
                                                       rank.communicator, compute, options.seed,
                                                       options.timeout_seconds});
}

}  // namespace

AutoTimeouts auto_timeouts(double longest_step_seconds, int64_t queued_steps) {
  constexpr double kTimes = 5, kLeast = 5;
  const double one = kTimes * longest_step_seconds;
  return {std::max(kLeast, one), std::max(kLeast, one * static_cast<double>(queued_steps))};
}

Trainer::Trainer(const RankContext& rank, const TrainerOptions& options)
    : rank_(rank),
      options_(options),
      row_(find_strategy(options.plan.strategy)),
      compute_(rank.device.make_stream("compute")),
      second_(rank.ops->gains_from_second_stream() ? rank.device.make_stream("weights") : nullptr),
      comm_(rank.device.make_stream("comm")),
      divided_(make_divided(rank, options_, *compute_)),
      whole_model_(
          divided_
              ? nullptr
              : std::make_unique<Model>(
                    options.model, rank.device, *rank.ops,
                    ModelOptions{.max_rows = most_micro_batch_rows(options.plan, row_.full_batch_everywhere),
                                 .seed = options.seed,
                                 .recompute = static_cast<Recompute>(options.plan.recompute),
                                 .storage = std::make_shared<ParameterStorage>(rank.device, make_layout(options.model),
                                                                               shards_of(options.plan, rank.rank))})),
      model_(divided_ ? divided_->model() : *whole_model_),
      optimizer_(
          make_optimizer(options.hyper, rank.device, *rank.ops, model_, owned(), decaying_ranges(model_.layout()))),
      order_(choose_order()),
      pieces_(make_pieces(model_.layout(), piece_bytes(options.plan, row_))),
      stamps_(rank.device) {
  const Feasibility feasible = row_.feasible(options_.plan);
  if (!feasible.ok) throw Error(Cause::usage, feasible.reason, "a larger batch, or fewer devices");
  if (options_.launch == LaunchMode::graph) {
    const Feasibility graphs = rank_.device.supports_graphs();
    if (!graphs.ok) throw Error(Cause::usage, "launch mode graph: " + graphs.reason, "`launch=eager`");
  }
  if (const LossScale* scale = optimizer_->loss_scale()) {
    if (divided_)
      throw Error(Cause::usage, "math fp16: the loss of a model that is divided among devices is not scaled yet",
                  "`math=bf16`, or a plan without tp and pp");
    model_.scale_gradient(&scale->scale);
  }
  if (zero_stage(options_.plan.strategy) > 0) changes_ = optimizer_->sum_changes();  // before updates are planned
  RangeOptimizer& optimizer = divided_ ? divided_->shared(*optimizer_) : *optimizer_;
  strategy_ = row_.build({options_.plan, rank_.device, *rank_.ops, model_, optimizer, replicas(), *compute_, *comm_,
                          options_.timeout_seconds, options_.keep_gradients,
                          divided_ ? divided_->shared_table() : FloatRange{}});
  check_plan();
  if (row_.data_on_root) {
    const int64_t rows = data_share(options_.plan, dp_rank()).rows();
    staged_features_ = rank_.device.allocate(float_bytes(rows * options_.model.input_width));
    staged_targets_ = rank_.device.allocate(float_bytes(rows * options_.model.target_width()));
  }
  if (has_unaligned_images(options_.model))
    aligned_features_ = rank_.device.allocate(
        float_bytes(most_micro_batch_rows(options_.plan, row_.full_batch_everywhere) * options_.model.input_width));
  reset();
}

/// Launch mode, math and shares that this plan's steps do not have.
void Trainer::check_plan() const {
  const ParallelPlan& plan = options_.plan;
  if (options_.launch == LaunchMode::graph && strategy_->period() > 1)
    throw Error(Cause::usage, "launch mode graph: the steps of this plan are not all alike", "`launch=eager`");
  if (plan.shares == kAutoShares && plan.mesh.dp > 1)
    throw Error(Cause::internal, "shares=auto reached a trainer before the speeds of the devices were measured");
  if (optimizer_->loss_scale() && plan.mesh.dp > 1 && (plan.compress > 0 || plan.local_sgd > 0 || plan.async_steps > 0))
    throw Error(Cause::usage, "math fp16 scales the loss, and this plan rounds, averages or delays gradients",
                "`math=bf16`, or a plan without compress, local-sgd and async");
}

GradientOrder Trainer::choose_order() const {
  if (!options_.model.is_mlp() || row_.is_layerwise)
    return GradientOrder::layerwise;  // these layers make all gradients in one pass
  if (rank_.ops->gemm().fuses_backward(most_micro_batch_rows(options_.plan, row_.full_batch_everywhere)))
    return GradientOrder::layerwise;
  const bool sends = sends_during_backward(row_, options_.plan);
  if (sends && row_.updates_early) return GradientOrder::dgrad_first;
  if (second_) return GradientOrder::two_streams;
  return sends ? GradientOrder::dgrad_first : GradientOrder::layerwise;
}

Trainer::~Trainer() {
  try {  // work in flight reads this object's buffers
    compute_->synchronize(deadline());
    comm_->synchronize(deadline());
  } catch (...) {  // the error was or will be reported by the call that waits for this step
  }
}

void Trainer::reset() {
  synchronize();
  optimizer_->reset(*compute_);
  strategy_->reset();
  if (divided_)
    divided_->initialise();
  else
    model_.initialise(*compute_, deadline());
  begin_own_state();
}

std::vector<FloatRange> Trainer::owned() const { return owned_by(dp_rank()); }

RowRange Trainer::rows_to_provide() const {
  if (row_.full_batch_everywhere) return {0, options_.plan.global_batch};
  if (row_.data_on_root) return rank_.rank == 0 ? RowRange{0, options_.plan.global_batch} : RowRange{0, 0};
  return data_share(options_.plan, dp_rank());
}

void Trainer::enqueue_micro_batches(const float* features, const float* targets, StepStamps* stamps, StepPart part) {
  if (has_stages()) return enqueue_stages(features, targets, stamps, part);
  const ParallelPlan& plan = options_.plan;
  const RowRange first = micro_batch_rows(plan, row_.full_batch_everywhere, dp_rank(), 0);
  const int64_t count = num_micro_batches(plan, dp_rank());
  for (int64_t micro = 0; micro < count; ++micro) {
    const RowRange rows = micro_batch_rows(plan, row_.full_batch_everywhere, dp_rank(), micro);
    const int64_t skip = rows.begin - first.begin;
    const BatchView batch{.features = aligned_rows(features, skip, rows.rows()),
                          .targets = targets + skip * options_.model.target_width(),
                          .rows = rows.rows(),
                          .row_offset = rows.begin,
                          .global_rows = plan.global_batch};
    const bool accumulate = micro > 0 && plan.virtual_shards == 0, last = micro + 1 == count;
    if (stamps && micro == 0) stamps->start(*compute_, stamps->forward);
    if (stamps && stamps->detailed) stamps->begin_piece(*compute_, "compute", "forward");
    enqueue_forward(batch, accumulate);
    if (stamps && stamps->detailed) stamps->end_piece(*compute_);
    if (stamps && micro == 0) stamps->end(*compute_, stamps->forward);
    if (part == StepPart::forward) continue;
    const ProfilerRange range("backward");
    const bool sends = part == StepPart::full || part == StepPart::staged;
    model_.backward(*compute_, batch, accumulate, sends ? backward_options(last, stamps) : silent_backward_options());
    if (plan.virtual_shards > 0) strategy_->micro_batch_done(micro);
  }
}

/// Rows of `features` from `first` on, copied where convolutions could not read them in place.
const float* Trainer::aligned_rows(const float* features, int64_t first, int64_t rows) {
  const float* const begin = features + first * options_.model.input_width;
  if (!aligned_features_ || reinterpret_cast<uintptr_t>(begin) % 16 == 0) return begin;
  rank_.device.copy_within(*compute_, aligned_features_->data(), begin, float_bytes(rows * options_.model.input_width));
  return aligned_features_->as<float>();
}

void Trainer::enqueue_forward(const BatchView& batch, bool accumulate) {
  const ProfilerRange range("forward");
  model_.forward(*compute_, batch, true);
  model_.loss(*compute_, batch, accumulate);
}

// Backward as in a step, but without callbacks for its gradients and without a fused update.
BackwardOptions Trainer::silent_backward_options() {
  return {order_, second_.get(), &pieces_, nullptr, strategy_->reserved_sms(), [](int64_t, int64_t, Stream&) {}};
}

BackwardOptions Trainer::backward_options(bool last, StepStamps* stamps) {
  BackwardOptions options{order_,
                          second_.get(),
                          &pieces_,
                          strategy_->update_in_backward(),
                          strategy_->reserved_sms(),
                          [=, this](int64_t begin, int64_t end, Stream& stream) {
                            if (last) strategy_->gradient_ready(begin, end, stream, stamps);
                          }};
  if (stamps && stamps->detailed)
    options.around = [=, this](bool begins, const char* product, size_t layer, Stream& stream) {
      const char* name = &stream == second_.get() ? "weights" : "compute";
      if (begins)
        stamps->begin_piece(stream, name, fmt::format("{} {}{}", product, layer, kind_text(options_.model, layer)));
      else
        stamps->end_piece(stream);
    };
  return options;
}

// If rank 0 holds the batch, `features` and `targets` are set to this rank's share.
void Trainer::enqueue_input(const float*& features, const float*& targets, bool hand_out, StepStamps* stamps) {
  if (!row_.data_on_root) return strategy_->begin_step({}, nullptr, nullptr);
  if (hand_out) {
    if (stamps) stamps->start(*compute_, stamps->input);
    strategy_->begin_step({features, targets, options_.plan.global_batch, 0, options_.plan.global_batch},
                          staged_features_->as<float>(), staged_targets_->as<float>());
    if (stamps) stamps->end(*compute_, stamps->input);
  }
  features = staged_features_->as<float>();
  targets = staged_targets_->as<float>();
}

void Trainer::enqueue(const float* features, const float* targets, StepStamps* stamps) {
  if (stamps) {
    stamps->begin();
    stamps->start(*compute_, stamps->step);
  }
  optimizer_->begin_step(*compute_);
  strategy_->begin_pass(true, stamps);
  enqueue_input(features, targets, true, stamps);
  enqueue_micro_batches(features, targets, stamps, StepPart::full);
  if (stamps) stamps->end(*compute_, stamps->backward);
  {
    const ProfilerRange range("finish step");  // waits for buckets, runs the optimizer
    strategy_->finish_step(stamps);
  }
  end_step();
  if (has_stages()) divided_->stages()->join();
  if (stamps) stamps->end(*compute_, stamps->step);
}

void Trainer::enqueue_part(const float* features, const float* targets, StepPart part) {
  if (part == StepPart::full) return enqueue(features, targets, nullptr);
  if (part == StepPart::messages) return enqueue_messages();
  if (part == StepPart::local || part == StepPart::staged) optimizer_->begin_step(*compute_);
  strategy_->begin_pass(part == StepPart::staged, nullptr);
  enqueue_input(features, targets, false, nullptr);
  enqueue_micro_batches(features, targets, nullptr, part);
  if (part == StepPart::forward || part == StepPart::backward) {
    strategy_->end_pass();
  } else {
    if (part == StepPart::staged)
      strategy_->finish_step(nullptr);
    else
      strategy_->update_alone();
    end_step();
  }
  if (has_stages()) divided_->stages()->join();
}

// A step that the loss scale skips does not count.
void Trainer::end_step() {
  const LossScale* scale = optimizer_->loss_scale();
  rank_.ops->elementwise().increment(*compute_, model_.step_counter(), scale ? &scale->skip : nullptr);
}

void Trainer::part_step(const float* features, const float* targets, StepPart part, LaunchMode mode) {
  if (mode == LaunchMode::eager || !warmed_) return enqueue_part(features, targets, part);
  graph_of(features, targets, nullptr, part).launch(*compute_);
}

void Trainer::prepare_part(const float* features, const float* targets, StepPart part) {
  if (warmed_) graph_of(features, targets, nullptr, part);
}

StepPart Trainer::local_part() const {
  const bool sends = row_.traffic_bytes(options_.plan, options_.model, rank_.rank) > 0;
  return sends ? StepPart::local : StepPart::full;
}

void Trainer::empty_step() {
  if (!empty_)
    empty_ = rank_.device.capture(*compute_, [&] {
      for (size_t i = graph_nodes(local_part()); i > 0; --i)
        rank_.ops->elementwise().increment(*compute_, model_.step_counter());
    });
  empty_->launch(*compute_);
}

void Trainer::launch(const float* features, const float* targets, LaunchMode mode, StepStamps* stamps) {
  const ProfilerRange range("step");
  if (!warmed_) rehearse(features, targets);
  if (mode == LaunchMode::eager || !warmed_) {
    enqueue(features, targets, stamps);
    warmed_ = true;
    return;
  }
  graph_of(features, targets, stamps).launch(*compute_);
}

Graph& Trainer::graph_of(const float* features, const float* targets, StepStamps* stamps, StepPart part) {
  std::unique_ptr<Graph>& graph = graphs_[{features, stamps, part, silent_tensor_}];
  if (!graph)
    graph = rank_.device.capture(*compute_, [&] {
      if (stamps)
        enqueue(features, targets, stamps);
      else
        enqueue_part(features, targets, part);
    });
  return *graph;
}

void Trainer::step(const float* features, const float* targets) { launch(features, targets, options_.launch, nullptr); }

void Trainer::stamped_step(const float* features, const float* targets, LaunchMode mode, StepStamps& stamps,
                           bool prepare_only) {
  if (!prepare_only) return launch(features, targets, mode, &stamps);
  if (mode == LaunchMode::graph && warmed_) graph_of(features, targets, &stamps);
}

StampedTimes Trainer::stamped_times(const float* features, const float* targets) {
  synchronize();
  launch(features, targets, options_.launch, &stamps_);
  synchronize();
  StampedTimes times;
  for (const Span& span : stamps_.stalls) times.stalls.push_back(stamps_.us(span));
  for (const Span& span : stamps_.collectives) times.collectives.push_back(stamps_.us(span));
  return times;
}

void Trainer::synchronize() {
  compute_->synchronize(deadline());
  comm_->synchronize(deadline());
}

size_t Trainer::graph_nodes(StepPart part) const {
  for (const auto& [key, graph] : graphs_)
    if (std::get<const StepStamps*>(key) == nullptr && std::get<StepPart>(key) == part) return graph->num_nodes();
  return 0;
}

}  // namespace amdahl
