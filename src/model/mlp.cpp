#include "model/mlp.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/philox.h"

namespace amdahl {
namespace {

constexpr uint32_t kInitStream = 0x1417;  // keeps initialisation draws apart from dropout draws of the same seed

size_t float_bytes(int64_t count) { return static_cast<size_t>(count) * sizeof(float); }

}  // namespace

std::vector<float> initial_parameters(const ModelSpec& spec, const ParameterLayout& layout, uint64_t seed) {
  std::vector<float> params(static_cast<size_t>(layout.num_floats), 0.0f);
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    const int64_t count = spec.layers[i].units * spec.layer_input_width(i);
    const double sd = std::sqrt(2.0 / static_cast<double>(spec.layer_input_width(i)));
    float* w = params.data() + layout.layers[i].weight;
    for (int64_t first = 0; first < count; first += 4) {
      const Philox4 bits = philox(seed, static_cast<uint32_t>(first), static_cast<uint32_t>(first >> 32),
                                  static_cast<uint32_t>(i), kInitStream);
      for (int64_t pair = 0; pair < 2; ++pair) {  // Box-Muller: two normals from two uniforms
        const double radius = std::sqrt(-2.0 * std::log(static_cast<double>(philox_uniform(bits.v[2 * pair]))));
        const double angle = 2.0 * std::numbers::pi * static_cast<double>(philox_uniform(bits.v[2 * pair + 1]));
        const int64_t at = first + 2 * pair;
        if (at < count) w[at] = static_cast<float>(sd * radius * std::cos(angle));
        if (at + 1 < count) w[at + 1] = static_cast<float>(sd * radius * std::sin(angle));
      }
    }
  }
  return params;
}

Mlp::Mlp(const ModelSpec& spec, Device& device, Ops& ops, int64_t max_rows, uint64_t seed)
    : spec_(spec), layout_(make_layout(spec)), device_(device), ops_(ops), max_rows_(max_rows), seed_(seed) {
  spec_.validate();
  params_ = device_.allocate(float_bytes(layout_.num_floats));
  grads_ = device_.allocate(float_bytes(layout_.num_floats));
  step_ = device_.allocate(sizeof(uint64_t));
  weights_done_ = device_.make_event();
  for (size_t i = 0; i < spec_.layers.size(); ++i) {
    const int64_t units = spec_.layers[i].units;
    activations_.push_back(device_.allocate(float_bytes(max_rows_ * units)));
    d_outputs_.push_back(device_.allocate(float_bytes(max_rows_ * units)));
    chain_.push_back(device_.make_event());
    const bool masked = spec_.layers[i].activation == Activation::relu;
    const int64_t mask_bytes = masked ? ops_.mask_bytes(max_rows_, units) : 0;
    masks_.push_back(mask_bytes > 0 ? device_.allocate(static_cast<size_t>(mask_bytes)) : nullptr);
  }
}

void Mlp::initialise(Stream& stream, Deadline deadline) {
  const std::vector<float> values = initial_parameters(spec_, layout_, seed_);
  device_.copy_in(stream, params_->data(), values.data(), params_->bytes());
  device_.fill_zero(stream, grads_->data(), grads_->bytes());
  device_.fill_zero(stream, step_->data(), step_->bytes());
  stream.synchronize(deadline);
}

void Mlp::forward(Stream& stream, const BatchView& batch, bool training) {
  const float* input = batch.features;
  for (size_t i = 0; i < spec_.layers.size(); ++i) {
    const DenseSpec& layer = spec_.layers[i];
    const LayerSlice& slice = layout_.layers[i];
    float* output = activations_[i]->as<float>();
    uint8_t* mask = masks_[i] ? masks_[i]->as<uint8_t>() : nullptr;
    DenseForward dense{.x = input,
                       .w = params() + slice.weight,
                       .bias = slice.bias >= 0 ? params() + slice.bias : nullptr,
                       .y = output,
                       .batch = batch.rows,
                       .in = spec_.layer_input_width(i),
                       .out = layer.units,
                       .relu = layer.activation == Activation::relu};
    dense.mask = training ? mask : nullptr;
    if (training && layer.dropout > 0)
      dense.dropout = {layer.dropout, seed_, step_counter(), static_cast<uint32_t>(i), batch.row_offset};
    ops_.dense_forward(stream, dense);
    input = output;
  }
}

void Mlp::loss(Stream& stream, const BatchView& batch, bool accumulate) {
  const float* prediction = outputs();
  float* gradient = d_outputs_.back()->as<float>();
  if (spec_.loss == LossKind::mse) {
    const float scale = static_cast<float>(1.0 / static_cast<double>(batch.global_rows * spec_.output_width()));
    ops_.mse_loss(stream,
                  {prediction, batch.targets, gradient, grads(), batch.rows, spec_.output_width(), scale, accumulate});
  } else {
    const float scale = static_cast<float>(1.0 / static_cast<double>(batch.global_rows));
    ops_.cross_entropy_loss(
        stream, {prediction, batch.targets, gradient, grads(), batch.rows, spec_.output_width(), scale, accumulate});
  }
}

DenseBackwardWeight Mlp::weight_gradient(const BatchView& batch, size_t layer, bool accumulate) {
  const LayerSlice& slice = layout_.layers[layer];
  // The bias gradient of a layer below the last comes out of the input gradient of the layer above it.
  const bool own_bias = slice.bias >= 0 && layer + 1 == spec_.layers.size();
  return {.x = layer == 0 ? batch.features : activations_[layer - 1]->as<float>(),
          .dy = d_outputs_[layer]->as<float>(),
          .dw = grads() + slice.weight,
          .dbias = own_bias ? grads() + slice.bias : nullptr,
          .batch = batch.rows,
          .in = spec_.layer_input_width(layer),
          .out = spec_.layers[layer].units,
          .accumulate = accumulate};
}

DenseBackwardInput Mlp::input_gradient(const BatchView& batch, size_t layer, bool accumulate) {
  const DenseSpec& below = spec_.layers[layer - 1];
  const LayerSlice& below_slice = layout_.layers[layer - 1];
  const bool masked = below.activation == Activation::relu;
  return {.dy = d_outputs_[layer]->as<float>(),
          .w = params() + layout_.layers[layer].weight,
          .activation = masked ? activations_[layer - 1]->as<float>() : nullptr,
          .dx = d_outputs_[layer - 1]->as<float>(),
          .dbias = below_slice.bias >= 0 ? grads() + below_slice.bias : nullptr,
          .batch = batch.rows,
          .in = below.units,
          .out = spec_.layers[layer].units,
          .scale = static_cast<float>(1.0 / (1.0 - below.dropout)),
          .accumulate = accumulate,
          .mask = masked && masks_[layer - 1] ? masks_[layer - 1]->as<uint8_t>() : nullptr};
}

void Mlp::backward(Stream& stream, const BatchView& batch, bool accumulate, const BackwardOptions& options) {
  switch (options.order) {
    case GradientOrder::layerwise:
      return backward_layerwise(stream, batch, accumulate, options);
    case GradientOrder::chain_first:
      return backward_chain_first(stream, batch, accumulate, options);
    case GradientOrder::two_streams:
      return backward_two_streams(stream, batch, accumulate, options);
  }
}

void Mlp::backward_layerwise(Stream& stream, const BatchView& batch, bool accumulate, const BackwardOptions& options) {
  for (size_t i = spec_.layers.size(); i-- > 0;) {
    const DenseBackwardWeight weight = weight_gradient(batch, i, accumulate);
    if (options.around) options.around(true, "gradients", i, stream);
    if (i > 0) {
      const DenseBackwardInput input = input_gradient(batch, i, accumulate);
      ops_.dense_backward(stream, weight, &input);
    } else if (options.first_weights) {
      ops_.dense_backward_update(stream, weight, *options.first_weights);
    } else {
      ops_.dense_backward(stream, weight, nullptr);
    }
    if (options.around) options.around(false, "gradients", i, stream);
    options.ready(layout_.layers[i].begin, layout_.layers[i].end, stream);
  }
}

void Mlp::backward_chain_first(Stream& stream, const BatchView& batch, bool accumulate,
                               const BackwardOptions& options) {
  for (size_t i = spec_.layers.size() - 1; i > 0; --i) backward_input(stream, batch, i, accumulate, options);
  std::vector<GradientPiece> ordered = *options.pieces;
  const auto layer_floats = [&](size_t layer) { return layout_.layers[layer].end - layout_.layers[layer].begin; };
  std::stable_sort(ordered.begin(), ordered.end(), [&](const GradientPiece& a, const GradientPiece& b) {
    return layer_floats(a.layer) > layer_floats(b.layer);
  });
  for (const GradientPiece& piece : ordered)
    backward_piece(stream, batch, piece, accumulate, options, &piece == &ordered.front());
}

void Mlp::backward_two_streams(Stream& stream, const BatchView& batch, bool accumulate,
                               const BackwardOptions& options) {
  Stream& second = *options.second_stream;
  size_t next = 0;  // pieces come in layout order: last layer first
  for (size_t i = spec_.layers.size(); i-- > 0;) {
    stream.record(*chain_[i]);  // the gradient of layer i's output is there
    second.wait(*chain_[i]);
    if (i > 0) backward_input(stream, batch, i, accumulate, options);
    for (; next < options.pieces->size() && (*options.pieces)[next].layer == i; ++next)
      backward_piece(second, batch, (*options.pieces)[next], accumulate, options, next == 0);
  }
  second.record(*weights_done_);
  stream.wait(*weights_done_);
}

void Mlp::backward_input(Stream& stream, const BatchView& batch, size_t layer, bool accumulate,
                         const BackwardOptions& options) {
  if (options.around) options.around(true, "input gradient", layer, stream);
  ops_.dense_backward_input(stream, input_gradient(batch, layer, accumulate));
  if (options.around) options.around(false, "input gradient", layer, stream);
}

void Mlp::backward_piece(Stream& stream, const BatchView& batch, const GradientPiece& piece, bool accumulate,
                         const BackwardOptions& options, bool first) {
  DenseBackwardWeight weight = weight_gradient(batch, piece.layer, accumulate);
  weight.dy_stride = weight.out;
  weight.dy += piece.row_begin;
  weight.dw += piece.row_begin * weight.in;
  weight.out = piece.row_end - piece.row_begin;
  if (!first) weight.held_sms = options.held_sms;
  if (options.around) options.around(true, "weight gradient", piece.layer, stream);
  ops_.dense_backward_weight(stream, weight);
  if (options.around) options.around(false, "weight gradient", piece.layer, stream);
  options.ready(piece.begin, piece.end, stream);
}

}  // namespace amdahl
