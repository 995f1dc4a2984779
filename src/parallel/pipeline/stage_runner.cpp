#include "parallel/pipeline/stage_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "plan/shares.h"
#include "plan/stages.h"

namespace amdahl {
namespace {

/// One direction of one boundary between stages of two ranks.
struct Channel {
  std::unique_ptr<Communicator> communicator;  // rank 0 holds the stage below, rank 1 the one above
  std::unique_ptr<Stream> stream;
  std::unique_ptr<Event> done;  // of a pass
};

}  // namespace

struct StageRunner::Stage {
  /// Events of one slot.
  struct SlotEvents {
    std::unique_ptr<Event> input_arrived, output_done, gradient_arrived, input_gradient_done, input_gradient_sent, free;
    bool was_sent = false, was_freed = false;  // in this pass
  };

  int number = 0;
  std::unique_ptr<Model> model;
  StageSlots slots;
  std::vector<std::unique_ptr<Buffer>> inputs;  // by slot; none in the first stage
  std::vector<SlotEvents> events;
  Channel input, output;                    // activations from the stage below, and to the one above
  Channel output_gradient, input_gradient;  // gradients from the stage above, and to the one below
  int inputs_done = 0, weights_done = 0;    // backward passes of this step that have been enqueued

  std::array<Channel*, 4> channels() { return {&input, &output, &output_gradient, &input_gradient}; }
  int slot_of(int micro_batch) const { return slots.of_micro_batch[static_cast<size_t>(micro_batch)]; }
  SlotEvents& events_of(int micro_batch) { return events[static_cast<size_t>(slot_of(micro_batch))]; }
  float* input_of(int micro_batch) const { return inputs[static_cast<size_t>(slot_of(micro_batch))]->as<float>(); }
};

StageRunner::StageRunner(const ModelSpec& model, const PipelineSchedule& schedule, const StageContext& context,
                         const StageOptions& options)
    : spec_(model),
      schedule_(schedule),
      context_(context),
      options_(options),
      own_compute_(context.compute ? nullptr : context.device.make_stream("compute")),
      compute_(context.compute ? context.compute : own_compute_.get()),
      begun_(context.device.make_event()) {
  check_schedule(schedule_);
  if (schedule_.num_ranks != context_.pipeline.world_size())
    throw Error(
        Cause::usage,
        fmt::format("a schedule of {} ranks on a pipeline of {}", schedule_.num_ranks, context_.pipeline.world_size()),
        "as many ranks as the schedule has");
  if (options_.global_batch < schedule_.num_micro_batches)
    throw Error(
        Cause::usage,
        fmt::format("batch {} is smaller than {} micro-batches", options_.global_batch, schedule_.num_micro_batches),
        "a larger batch, or fewer micro-batches");
  if (options_.layers.empty()) options_.layers = balance_stages(layer_flops(spec_), schedule_.num_stages);
  if (options_.all_rows == 0) options_.all_rows = options_.global_batch;
  max_rows_ = even_share(options_.global_batch, schedule_.num_micro_batches, 0).rows();
  for (int number = 0; number < schedule_.num_stages; ++number) {
    if (schedule_.rank_of_stage[static_cast<size_t>(number)] != context_.pipeline.rank()) continue;
    Stage& stage = *stages_.emplace_back(std::make_unique<Stage>());
    stage.number = number;
    stage.slots = assign_slots(schedule_, number);
    const LayerRange layers = options_.layers[static_cast<size_t>(number)];
    stage.model = std::make_unique<Model>(spec_, context_.device, context_.ops,
                                          ModelOptions{.max_rows = max_rows_,
                                                       .seed = options_.seed,
                                                       .layers = layers,
                                                       .num_slots = stage.slots.count,
                                                       .recompute = options_.recompute,
                                                       .make_layer = options_.make_layer,
                                                       .tensor = options_.tensor,
                                                       .roles = options_.roles,
                                                       .divided_tokens = options_.divided_tokens,
                                                       .storage = options_.storage});
    for (int s = 0; s < stage.slots.count; ++s) {
      Stage::SlotEvents& events = stage.events.emplace_back();
      for (auto* event : {&events.input_arrived, &events.output_done, &events.gradient_arrived,
                          &events.input_gradient_done, &events.input_gradient_sent, &events.free})
        *event = context_.device.make_event();
      if (number > 0)
        stage.inputs.push_back(context_.device.allocate(float_bytes(stage.model->input_floats(max_rows_))));
    }
  }
  connect();
}

StageRunner::~StageRunner() {
  try {  // work in flight uses this object's buffers
    synchronize();
  } catch (...) {  // the error was or will be reported by the call that waits for this step
  }
}

// Every rank calls split for every boundary in the same order, although only two ranks are members of each.
void StageRunner::connect() {
  const int rank = context_.pipeline.rank();
  for (int below = 0; below + 1 < schedule_.num_stages; ++below) {
    const int lower = schedule_.rank_of_stage[static_cast<size_t>(below)];
    const int upper = schedule_.rank_of_stage[static_cast<size_t>(below) + 1];
    if (lower == upper) continue;
    const bool takes_part = rank == lower || rank == upper;
    for (const bool up : {true, false}) {
      auto communicator = context_.pipeline.split(takes_part ? 0 : -1, rank == lower ? 0 : 1, deadline());
      if (!takes_part) continue;
      Stage& stage = stage_of(rank == lower ? below : below + 1);
      Channel& channel =
          rank == lower ? (up ? stage.output : stage.output_gradient) : (up ? stage.input : stage.input_gradient);
      channel = {std::move(communicator),
                 context_.device.make_stream(fmt::format("{} {}", up ? "activations" : "gradients", below)),
                 context_.device.make_event()};
    }
  }
}

StageRunner::Stage& StageRunner::stage_of(int number) {
  for (const auto& stage : stages_)
    if (stage->number == number) return *stage;
  throw Error(Cause::internal, fmt::format("stage {} is not held by rank {}", number, context_.pipeline.rank()));
}

Model& StageRunner::model(size_t index) { return *stages_[index]->model; }

int StageRunner::loss_stage() const {
  for (size_t i = 0; i < stages_.size(); ++i)
    if (stages_[i]->number + 1 == schedule_.num_stages) return static_cast<int>(i);
  return -1;
}

void StageRunner::initialise() {
  synchronize();
  for (const auto& stage : stages_) stage->model->initialise(*compute_, deadline());
}

void StageRunner::synchronize() {
  compute_->synchronize(deadline());
  for (const auto& stage : stages_)
    for (const Channel* channel : stage->channels())
      if (channel->stream) channel->stream->synchronize(deadline());
  joined_ = true;
}

// Within a pass no event of an earlier one is waited for, so that a pass can be captured in a graph: the channels begin
// when the compute stream does, and the compute stream has waited for what they did before.
void StageRunner::begin_pass() {
  join();
  compute_->record(*begun_);
  for (const auto& stage : stages_) {
    stage->inputs_done = stage->weights_done = 0;
    for (Stage::SlotEvents& events : stage->events) events.was_sent = events.was_freed = false;
    for (const Channel* channel : stage->channels())
      if (channel->stream) channel->stream->wait(*begun_);
  }
  joined_ = false;
}

void StageRunner::join() {
  if (joined_) return;
  for (const auto& stage : stages_)
    for (const Channel* channel : stage->channels()) {
      if (!channel->stream) continue;
      channel->stream->record(*channel->done);
      compute_->wait(*channel->done);
    }
  joined_ = true;
}

void StageRunner::enqueue_gradients(const float* features, const float* targets, const StageHooks& hooks) {
  begin_pass();
  for (const Action& action : schedule_.actions[static_cast<size_t>(context_.pipeline.rank())]) {
    Stage& stage = stage_of(action.stage);
    if (action.kind == ActionKind::forward)
      forward(stage, action, features, targets, hooks);
    else
      backward(stage, action, features, targets, hooks);
  }
}

// Stages of a rank are visited as a message passes them: upwards, then downwards.
void StageRunner::enqueue_round_trips(int64_t times) {
  begin_pass();
  const int64_t rows = max_rows_;
  for (int64_t trip = 0; trip < times; ++trip) {
    for (const auto& stage : stages_) {
      const Action action{ActionKind::forward, stage->number, 0};
      if (stage->input.stream) receive_input(*stage, action, rows, {});
      if (stage->output.stream) send_output(*stage, 0, rows);
    }
    for (size_t i = stages_.size(); i-- > 0;) {
      Stage& stage = *stages_[i];
      const Action action{ActionKind::backward, stage.number, 0};
      if (stage.output_gradient.stream) receive_gradient(stage, action, rows, {});
      if (stage.input_gradient.stream) send_input_gradient(stage, 0, rows);
    }
  }
}

int StageRunner::messages_per_round_trip() const {
  int boundaries = 0;
  for (size_t stage = 1; stage < schedule_.rank_of_stage.size(); ++stage)
    boundaries += schedule_.rank_of_stage[stage] != schedule_.rank_of_stage[stage - 1];
  return 2 * boundaries;
}

void StageRunner::evaluate(const float* features, const float* targets, int64_t rows, int64_t all_rows) {
  begin_pass();
  for (const auto& each : stages_) {
    Stage& stage = *each;
    const Action action{ActionKind::forward, stage.number, 0};
    const bool first = stage.number == 0, last = stage.number + 1 == schedule_.num_stages;
    const BatchView batch{.features = first ? features : stage.input_of(0),
                          .targets = last ? targets : nullptr,
                          .rows = rows,
                          .global_rows = all_rows,
                          .tokens = features};
    if (!first) receive_input(stage, action, rows, {});
    stage.model->forward(*compute_, batch, false, stage.slot_of(0));
    if (last)
      stage.model->loss(*compute_, batch, false, stage.slot_of(0));
    else if (stage.output.stream)
      send_output(stage, 0, rows);
  }
  synchronize();
}

size_t StageRunner::take_traffic() {
  size_t bytes = 0;
  for (const auto& stage : stages_)
    for (Channel* channel : stage->channels())
      if (channel->communicator) {
        bytes += channel->communicator->traffic().payload_bytes;
        channel->communicator->reset_traffic();
      }
  return bytes;
}

BatchView StageRunner::batch_of(const Stage& stage, int micro_batch, const float* features,
                                const float* targets) const {
  const RowRange rows = even_share(options_.global_batch, schedule_.num_micro_batches, micro_batch);
  const bool first = stage.number == 0, last = stage.number + 1 == schedule_.num_stages;
  const float* const own = features ? features + rows.begin * spec_.input_width : nullptr;
  return {.features = first ? own : stage.input_of(micro_batch),
          .targets = last ? targets + rows.begin * spec_.target_width() : nullptr,
          .rows = rows.rows(),
          .row_offset = options_.first_row + rows.begin,
          .global_rows = options_.all_rows,
          .tokens = own};
}

void StageRunner::forward(Stage& stage, const Action& action, const float* features, const float* targets,
                          const StageHooks& hooks) {
  const int micro_batch = action.micro_batch, slot = stage.slot_of(micro_batch);
  const BatchView batch = batch_of(stage, micro_batch, features, targets);
  if (stage.number > 0) receive_input(stage, action, batch.rows, hooks);
  if (hooks.around) hooks.around(true, action);
  stage.model->forward(*compute_, batch, true, slot);
  if (batch.targets) stage.model->loss(*compute_, batch, micro_batch > 0, slot);
  if (hooks.around) hooks.around(false, action);
  if (!batch.targets && stage.output.stream) send_output(stage, micro_batch, batch.rows);
}

void StageRunner::backward(Stage& stage, const Action& action, const float* features, const float* targets,
                           const StageHooks& hooks) {
  const int micro_batch = action.micro_batch, slot = stage.slot_of(micro_batch);
  const BatchView batch = batch_of(stage, micro_batch, features, targets);
  Stage::SlotEvents& events = stage.events_of(micro_batch);
  const bool weights_alone = action.kind == ActionKind::backward_weight;
  bool last = false;
  if (!weights_alone) {
    if (stage.output_gradient.stream) receive_gradient(stage, action, batch.rows, hooks);
    if (events.was_sent) compute_->wait(*events.input_gradient_sent);  // of the slot's previous micro-batch
  }
  if (hooks.around) hooks.around(true, action);
  if (weights_alone) {
    stage.model->backward_weights(*compute_, batch, stage.weights_done++ > 0, slot);
    last = stage.weights_done == schedule_.num_micro_batches;
  } else {
    const bool accumulate = stage.inputs_done++ > 0;
    if (action.kind == ActionKind::backward_input) {
      stage.model->backward_inputs(*compute_, batch, accumulate, slot);
    } else {
      last = stage.inputs_done == schedule_.num_micro_batches;
      BackwardOptions options;
      if (last) options.ready = hooks.ready;
      stage.model->backward(*compute_, batch, accumulate, options, slot);
    }
  }
  if (hooks.around) hooks.around(false, action);
  if (!weights_alone && stage.number > 0) send_input_gradient(stage, micro_batch, batch.rows);
  if (last && weights_alone) tell_ready(stage, hooks);
  if (!ends_backward(action.kind)) return;
  compute_->record(*events.free);
  events.was_freed = true;
}

void StageRunner::tell_ready(const Stage& stage, const StageHooks& hooks) {
  if (!hooks.ready) return;
  const ParameterLayout& layout = stage.model->layout();
  for (size_t i = stage.model->range().last; i-- > stage.model->range().first;)
    hooks.ready(layout.layers[i].begin, layout.layers[i].end, *compute_);
}

void StageRunner::receive_input(Stage& stage, const Action& action, int64_t rows, const StageHooks& hooks) {
  const int micro_batch = action.micro_batch;
  const int64_t floats = stage.model->input_floats(rows);
  Stage::SlotEvents& events = stage.events_of(micro_batch);
  if (!stage.input.stream) {
    Stage& below = stage_of(stage.number - 1);
    return context_.device.copy_within(*compute_, stage.input_of(micro_batch),
                                       below.model->outputs(below.slot_of(micro_batch)), float_bytes(floats));
  }
  if (silent_) return;
  Stream& stream = *stage.input.stream;
  if (events.was_freed) stream.wait(*events.free);
  stage.input.communicator->recv(stage.input_of(micro_batch), static_cast<size_t>(floats), DType::f32, 0, stream);
  stream.record(*events.input_arrived);
  if (hooks.waits) hooks.waits(true, action);
  compute_->wait(*events.input_arrived);
  if (hooks.waits) hooks.waits(false, action);
}

void StageRunner::send_output(Stage& stage, int micro_batch, int64_t rows) {
  if (silent_) return;
  Stage::SlotEvents& events = stage.events_of(micro_batch);
  compute_->record(*events.output_done);
  stage.output.stream->wait(*events.output_done);
  stage.output.communicator->send(stage.model->outputs(stage.slot_of(micro_batch)),
                                  static_cast<size_t>(stage.model->output_floats(rows)), DType::f32, 1,
                                  *stage.output.stream);
}

void StageRunner::receive_gradient(Stage& stage, const Action& action, int64_t rows, const StageHooks& hooks) {
  const int micro_batch = action.micro_batch;
  const int64_t floats = stage.model->output_floats(rows);
  float* gradient = stage.model->output_gradient(stage.slot_of(micro_batch));
  Stage::SlotEvents& events = stage.events_of(micro_batch);
  if (silent_) return;
  Stream& stream = *stage.output_gradient.stream;
  if (events.was_freed) stream.wait(*events.free);  // the slot's previous micro-batch has read its gradient
  stage.output_gradient.communicator->recv(gradient, static_cast<size_t>(floats), DType::f32, 1, stream);
  stream.record(*events.gradient_arrived);
  if (hooks.waits) hooks.waits(true, action);
  compute_->wait(*events.gradient_arrived);
  if (hooks.waits) hooks.waits(false, action);
}

void StageRunner::send_input_gradient(Stage& stage, int micro_batch, int64_t rows) {
  const int64_t floats = stage.model->input_floats(rows);
  const float* gradient = stage.model->input_gradient(stage.slot_of(micro_batch));
  if (!stage.input_gradient.stream) {
    Stage& below = stage_of(stage.number - 1);
    return context_.device.copy_within(*compute_, below.model->output_gradient(below.slot_of(micro_batch)), gradient,
                                       float_bytes(floats));
  }
  if (silent_) return;
  Stage::SlotEvents& events = stage.events_of(micro_batch);
  Stream& stream = *stage.input_gradient.stream;
  compute_->record(*events.input_gradient_done);
  stream.wait(*events.input_gradient_done);
  stage.input_gradient.communicator->send(gradient, static_cast<size_t>(floats), DType::f32, 0, stream);
  stream.record(*events.input_gradient_sent);
  events.was_sent = true;
}

}  // namespace amdahl
