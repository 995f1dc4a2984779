#include "model/model.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/dense_layer.h"

namespace amdahl {
Model::Model(const ModelSpec& spec, Device& device, Ops& ops, const ModelOptions& options)
    : spec_(spec),
      storage_(options.storage
                   ? options.storage
                   : std::make_shared<ParameterStorage>(device, make_layout(spec, options.layers, options.shards))),
      range_{options.layers.first, std::min(options.layers.last, spec.layers.size())},
      device_(device),
      ops_(ops),
      options_(options),
      scratch_(device),
      typed_(device) {
  spec_.validate();
  stats_ = device_.allocate(float_bytes(kLossStats));
  weights_done_ = device_.make_event();
  for (size_t i = range_.first; i < range_.last; ++i) {
    const LayerSlice& slice = layout().layers[i];
    LayerParameters parameters{storage_->layer_param(slice.weight), nullptr, storage_->layer_grad(slice.weight),
                               nullptr};
    if (slice.bias >= 0)
      parameters.bias = storage_->layer_param(slice.bias), parameters.d_bias = storage_->layer_grad(slice.bias);
    if (spec_.layers[i].kind == LayerKind::token_head) {
      auto head = std::make_unique<TokenHead>(layer_context(i));
      head_ = head.get();
      layers_.push_back(std::move(head));
    } else if (spec_.layers[i].kind != LayerKind::dense)
      layers_.push_back(make_typed_layer(layer_context(i)));
    else if (options_.make_layer)
      layers_.push_back(options_.make_layer(i, parameters));
    else
      layers_.push_back(std::make_unique<DenseLayer>(spec_.layers[i], spec_.layer_input_width(i), i, parameters,
                                                     device_, ops_.gemm()));
    chain_.push_back(device_.make_event());
  }
  for (int s = 0; s < options_.num_slots; ++s) {
    Slot& slot = slots_.emplace_back();
    for (const auto& layer : layers_) slot.states.push_back(layer->make_state(options_.max_rows));
    if (spec_.layers.front().end_token >= 0)
      slot.starts = device_.allocate(static_cast<size_t>(options_.max_rows * spec_.input_width) * sizeof(int32_t));
    if (has_input_gradient(range_.first)) slot.d_input = device_.allocate(float_bytes(input_floats(options_.max_rows)));
  }
  for (Slot& slot : slots_)
    for (size_t i = range_.first + 1; i < range_.last; ++i)
      state(slot, i - 1).d_added = layer(i).added_gradient(state(slot, i));
  scratch_.allocate();
  typed_.allocate();
}

int64_t Model::divided_floats(const Shape& tokens, int64_t rows) const {
  return tokens_of_rank(rows * tokens[0], options_.tensor->place().size) * tokens[1];
}

int64_t Model::input_floats(int64_t rows) const {
  const bool is_divided = range_.first > 0 && divides_tokens_of(range_.first - 1);
  return is_divided ? divided_floats(spec_.layer_input_shape(range_.first), rows)
                    : rows * layers_.front()->input_width();
}

int64_t Model::output_floats(int64_t rows) const {
  const size_t last = range_.last - 1;
  return divides_tokens_of(last) ? divided_floats(spec_.layer_output_shape(last), rows)
                                 : rows * spec_.layer_output_width(last);
}

LayerContext Model::layer_context(size_t index) {
  const LayerSlice& slice = layout().layers[index];
  LayerContext context{spec_.layers[index],
                       index,
                       spec_.layer_input_shape(index),
                       spec_.layer_output_shape(index),
                       {},
                       slice.end - slice.begin,
                       storage_->layer_param(slice.begin),
                       device_,
                       ops_,
                       scratch_,
                       index == 0 && spec_.layers.back().tied && is_held(spec_.layers.size() - 1),
                       options_.recompute,
                       options_.tensor && options_.roles[index] == TensorRole::divided ? options_.tensor : nullptr};
  if (storage_->shards.parameters) context.typed = &typed_;
  context.takes_part = index > 0 && divides_tokens_of(index - 1);
  context.gives_part = divides_tokens_of(index);
  if (context.takes_part || context.gives_part) context.tokens = options_.tensor;
  const auto kind = [&](size_t layer) { return spec_.layers[layer].kind; };
  context.images_below = index > range_.first && passes_images(kind(index - 1), kind(index));
  context.images_above = index + 1 < range_.last && passes_images(kind(index), kind(index + 1));
  const auto add = [&](const TensorSlice& tensor) {
    context.parameters.tensors.push_back({storage_->layer_param(tensor.begin), storage_->layer_grad(tensor.begin)});
  };
  for (const TensorSlice& tensor : slice.tensors) add(tensor);
  if (spec_.layers[index].tied && !slice.is_table_copy) {
    if (layout().layers.front().tensors.empty())
      throw Error(Cause::internal, "the table that a classifier shares with the embedding is not on this device");
    add(layout().layers.front().tensors.front());
  }
  return context;
}

std::vector<NamedBuffer> Model::buffers() {
  std::vector<NamedBuffer> all;
  for (size_t i = range_.first; i < range_.last; ++i)
    for (NamedBuffer& buffer : layer(i).buffers()) {
      buffer.name = fmt::format("layers.{}.{}", i, buffer.name);
      all.push_back(std::move(buffer));
    }
  return all;
}

void Model::initialise(Stream& stream, Deadline deadline) {
  std::vector<float> values = initial_parameters(spec_, layout(), options_.seed);
  if (storage_->shards.parameters) values = storage_->held_of(values);
  device_.copy_in(stream, params(), values.data(), float_bytes(static_cast<int64_t>(values.size())));
  storage_->fill_zero(stream);
  device_.fill_zero(stream, stats_->data(), stats_->bytes());
  std::vector<std::vector<float>> initial;  // kept until the device has read it
  for (const NamedBuffer& buffer : buffers()) {
    initial.emplace_back(static_cast<size_t>(buffer.count), buffer.initial);
    device_.copy_in(stream, buffer.data, initial.back().data(), float_bytes(buffer.count));
  }
  stream.synchronize(deadline);
}

LayerRows Model::rows_of(const BatchView& batch, const Slot& slot, bool training) const {
  return {.rows = batch.rows,
          .row_offset = batch.row_offset,
          .seed = options_.seed,
          .step = storage_->step->as<uint64_t>(),
          .training = training,
          .starts = slot.starts ? slot.starts->as<int32_t>() : nullptr};
}

const float* Model::input_of(const BatchView& batch, Slot& slot, size_t layer) const {
  return layer == range_.first ? batch.features : state(slot, layer - 1).out();
}

float* Model::input_gradient_of(Slot& slot, size_t layer) const {
  if (!has_input_gradient(layer)) return nullptr;
  return layer == range_.first ? slot.d_input->as<float>() : state(slot, layer - 1).d_out();
}

GradientEpilogue Model::epilogue_below(const BatchView& batch, Slot& slot, size_t layer_index) const {
  if (layer_index > range_.first) return layer(layer_index - 1).epilogue(state(slot, layer_index - 1));
  if (!has_input_gradient(layer_index)) return {};
  // The layer below is on another device, but its output is the input here: the epilogue is applied here, except for
  // the bias gradient.
  const LayerSpec& below = spec_.layers[layer_index - 1];
  if (below.kind != LayerKind::dense) return {};
  return {.activation = below.activation == Activation::relu ? batch.features : nullptr,
          .scale = static_cast<float>(1.0 / (1.0 - below.dropout))};
}

void Model::forward(Stream& stream, const BatchView& batch, bool training, int slot_index) {
  Slot& slot = slots_[static_cast<size_t>(slot_index)];
  slot.training = training;
  if (slot.starts)
    ops_.sequence().document_starts(stream, {.tokens = batch.tokens ? batch.tokens : batch.features,
                                             .starts = slot.starts->as<int32_t>(),
                                             .rows = batch.rows,
                                             .steps = spec_.input_width,
                                             .end = spec_.layers.front().end_token});
  const LayerRows rows = rows_of(batch, slot, training);
  for (size_t i = range_.first; i < range_.last; ++i) {
    if (storage_->gate) storage_->gate->before(stream, gated(i, false));
    layer(i).forward(stream, rows, input_of(batch, slot, i), state(slot, i));
    if (storage_->gate) storage_->gate->after(stream, gated(i, false));
  }
}

void Model::loss(Stream& stream, const BatchView& batch, bool accumulate, int slot_index) {
  if (head_) {
    Slot& slot = slots_[static_cast<size_t>(slot_index)];
    const size_t last = range_.last - 1;
    const double labels = static_cast<double>(batch.global_rows * spec_.labels_per_row());
    state(slot, last).targets = {batch.targets, stats_->as<float>(), static_cast<float>(1.0 / labels), gradient_scale_};
    if (!accumulate) head_->set_loss();
    if (slot.training) return;
    if (storage_->gate) storage_->gate->before(stream, gated(last, false));
    head_->evaluate(stream, rows_of(batch, slot, false), state(slot, last));
    if (storage_->gate) storage_->gate->after(stream, gated(last, false));
    return;
  }
  const auto share = [&](int64_t values) { return static_cast<float>(1.0 / static_cast<double>(values)); };
  const int64_t width = spec_.output_width();
  float *const outputs_ = outputs(slot_index), *const gradient = output_gradient(slot_index),
               *const stats = stats_->as<float>();
  if (spec_.loss == LossKind::mse)
    ops_.loss().mse_loss(stream, {outputs_, batch.targets, gradient, stats, batch.rows, width,
                                  share(batch.global_rows * width), accumulate, gradient_scale_});
  else
    ops_.loss().cross_entropy_loss(stream, {outputs_, batch.targets, gradient, stats, batch.rows, width,
                                            share(batch.global_rows), accumulate, gradient_scale_});
}

}  // namespace amdahl
