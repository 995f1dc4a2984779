#include "reference_model.h"

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

#include "plan/block_kind.h"
#include "plan/rotary.h"
#include "reference_conv.h"
#include "reference_decoder.h"
#include "reference_recurrent.h"

namespace amdahl::test {
namespace {

using reference::at;
using reference::Values;

/// One layer in forward direction; `backward` takes the gradient of its output, adds the gradients of the parameters
/// and returns that of the input.
struct Pass {
  Values output;
  std::function<Values(const Values& d_output)> backward;
};

/// Reads parameters of a layer and adds to their gradients.
struct LayerView {
  const LayerSpec& spec;
  Shape input;
  int64_t rows;
  const std::vector<TensorSlice>& tensors;
  const Values& parameters;
  Values& gradients;
  const std::vector<int32_t>& starts;  // of the documents in rows of tokens; empty: a row is one document

  Values value(size_t tensor) const {
    const auto begin = parameters.begin() + tensors[tensor].begin;
    return {begin, begin + tensors[tensor].spec.num_parameters()};
  }
  void add(size_t tensor, const Values& gradient) const {
    for (size_t i = 0; i < gradient.size(); ++i) gradients[at(tensors[tensor].begin) + i] += gradient[i];
  }
};

/// y = x W^T + b of every row of x [n, in].
Pass linear(const LayerView& layer, const Values& x, size_t weight, int64_t in, int64_t out, bool bias = true) {
  const int64_t n = static_cast<int64_t>(x.size()) / in;
  Values y = reference::matmul(x, layer.value(weight), n, out, in, false, true);
  if (bias) y = reference::add_bias(std::move(y), layer.value(weight + 1));
  return {y, [=](const Values& dy) {
            layer.add(weight, reference::matmul(dy, x, out, in, n, true, false));
            if (bias) layer.add(weight + 1, reference::column_sums(dy, out));
            return reference::matmul(dy, layer.value(weight), n, in, out);
          }};
}

Pass norm(const LayerView& layer, const Values& x, size_t weight) {
  const double epsilon = layer.spec.epsilon;
  if (layer.spec.norm == NormKind::rms)
    return {reference::rms_norm(x, layer.value(weight), epsilon), [=](const Values& dy) {
              const auto g = reference::rms_norm_gradients(dy, x, layer.value(weight), epsilon);
              layer.add(weight, g.dgamma);
              return g.dx;
            }};
  return {reference::layer_norm(x, layer.value(weight), layer.value(weight + 1), epsilon).y, [=](const Values& dy) {
            const auto g = reference::layer_norm_gradients(dy, x, layer.value(weight), epsilon);
            layer.add(weight, g.dgamma);
            layer.add(weight + 1, g.dbeta);
            return g.dx;
          }};
}

/// A tensor of a block by its name.
size_t named(const LayerView& layer, std::string_view name) {
  for (size_t i = 0; i < layer.tensors.size(); ++i)
    if (layer.tensors[i].spec.name == name) return i;
  throw std::logic_error("the block has no " + std::string(name));
}

/// q and k as attention reads them.
Pass heads(const LayerView& layer, const reference::AttentionSizes& sizes, const Values& qkv) {
  reference::Heads change;
  change.epsilon = layer.spec.epsilon;
  const size_t q = layer.spec.qk_norm ? named(layer, "attention.q_norm.weight") : 0;
  if (layer.spec.qk_norm) change.q_weight = layer.value(q), change.k_weight = layer.value(q + 1);
  if (layer.spec.rope_theta > 0) {
    change.factor = rotary_factor(layer.spec);
    for (int64_t t = 0; t < sizes.steps; ++t)
      for (const double frequency : rotary_frequencies(layer.spec))
        change.angles.push_back(static_cast<double>(t) * frequency);
  }
  return {reference::heads_forward(sizes, qkv, change), [=](const Values& dy) {
            const auto g = reference::heads_gradients(sizes, qkv, dy, change);
            if (layer.spec.qk_norm) layer.add(q, g.dq_weight), layer.add(q + 1, g.dk_weight);
            return g.d_qkv;
          }};
}

Pass attention(const LayerView& layer, const Values& x) {
  const LayerSpec& spec = layer.spec;
  const BlockWidths w = block_widths(spec);
  const reference::AttentionSizes sizes{layer.rows,  layer.input[0], w.heads,     w.head_dim,
                                        spec.causal, w.kv_heads,     spec.window, layer.starts};
  const Pass qkv = linear(layer, x, named(layer, "attention.qkv.weight"), w.units, w.qkv(), spec.qkv_bias);
  const Pass changed = heads(layer, sizes, qkv.output);
  const Pass out = linear(layer, reference::attention(sizes, changed.output).out, named(layer, "attention.out.weight"),
                          w.attended(), w.units, spec.out_bias);
  return {
      out.output, [=](const Values& dy) {
        return qkv.backward(changed.backward(reference::attention_gradient(sizes, changed.output, out.backward(dy))));
      }};
}

Pass mlp(const LayerView& layer, const Values& x) {
  const LayerSpec& spec = layer.spec;
  const BlockWidths w = block_widths(spec);
  const bool gated = spec.mlp != MlpKind::gelu;
  const reference::Act act = spec.mlp == MlpKind::swiglu ? reference::Act::silu
                             : spec.exact_gelu           ? reference::Act::exact_gelu
                                                         : reference::Act::gelu;
  const Pass up = linear(layer, x, named(layer, "mlp.up.weight"), w.units, w.up(), spec.mlp_bias);
  const Pass down = linear(layer, reference::activate(up.output, w.hidden, act, gated), named(layer, "mlp.down.weight"),
                           w.hidden, w.units, spec.mlp_bias);
  return {down.output, [=](const Values& dy) {
            return up.backward(reference::activate_gradient(down.backward(dy), up.output, w.hidden, act, gated));
          }};
}

Pass block(const LayerView& layer, const Values& x) {
  const size_t first = named(layer, "norm1.weight"), second = named(layer, "norm2.weight");
  if (layer.spec.post_norm) {
    const Pass a = attention(layer, x), norm1 = norm(layer, reference::sum_of(x, a.output), first);
    const Pass m = mlp(layer, norm1.output), norm2 = norm(layer, reference::sum_of(norm1.output, m.output), second);
    return {norm2.output, [=](const Values& dy) {
              const Values d2 = norm2.backward(dy);
              const Values d1 = norm1.backward(reference::sum_of(d2, m.backward(d2)));
              return reference::sum_of(d1, a.backward(d1));
            }};
  }
  const Pass norm1 = norm(layer, x, first), a = attention(layer, norm1.output);
  const Values middle = reference::sum_of(x, a.output);
  const Pass norm2 = norm(layer, middle, second), m = mlp(layer, norm2.output);
  return {reference::sum_of(middle, m.output), [=](const Values& dy) {
            const Values d_middle = reference::sum_of(dy, norm2.backward(m.backward(dy)));
            return reference::sum_of(d_middle, norm1.backward(a.backward(d_middle)));
          }};
}

Pass embedding(const LayerView& layer, const Values& tokens) {
  const int64_t steps = layer.input[0], width = layer.spec.units;
  const bool positions = layer.spec.positions, types = layer.spec.token_types > 0;
  const size_t type_tensor = positions ? 2 : 1;
  const std::vector<int32_t> starts = layer.starts;
  const Values table = layer.value(0), common = types ? layer.value(type_tensor) : Values{};
  return {reference::embedding(tokens, table, positions ? layer.value(1) : Values{},
                               types ? Values(common.begin(), common.begin() + width) : Values{}, steps, width, starts),
          [=](const Values& dy) {
            const auto g = reference::embedding_gradients(tokens, dy, layer.spec.vocabulary, steps, width, starts);
            layer.add(0, g.table);
            if (positions) layer.add(1, g.positions);
            if (types) layer.add(type_tensor, g.common);
            return Values{};
          }};
}

Pass projection(const LayerView& layer, const Values& x) {
  const int64_t steps = layer.input[0], width = layer.spec.units;
  const Pass dense = linear(layer, x, 0, layer.input[1], width);
  if (!layer.spec.positions) return dense;
  Values y = dense.output;
  const Values positions = layer.value(2);
  for (size_t i = 0; i < y.size(); ++i) y[i] += positions[i % at(steps * width)];
  return {y, [=](const Values& dy) {
            layer.add(2, reference::positions_gradient(dy, steps, width));
            return dense.backward(dy);
          }};
}

Pass pool(const LayerView& layer, const Values& x) {
  using reference::Pool;
  const Pool kind = layer.spec.pooling == Pooling::mean    ? Pool::mean
                    : layer.spec.pooling == Pooling::first ? Pool::first
                                                           : Pool::last;
  const int64_t steps = layer.input[0], width = layer.input[1], rows = layer.rows;
  return {reference::pool_steps(kind, x, rows, steps, width),
          [=](const Values& dy) { return reference::pool_steps_gradient(kind, dy, rows, steps, width); }};
}

Pass dense(const LayerView& layer, const Values& x) {
  const Pass plain = linear(layer, x, 0, count_of(layer.input), layer.spec.units, layer.spec.bias);
  if (layer.spec.activation == Activation::none) return plain;
  Values y = plain.output;
  for (double& value : y) value = std::max(0.0, value);
  return {y, [=](const Values& dy) {
            Values passed = dy;
            for (size_t i = 0; i < y.size(); ++i)
              if (y[i] == 0) passed[i] = 0;
            return plain.backward(passed);
          }};
}

Pass recurrent(const LayerView& layer, const Values& x) {
  const RecurrentShape shape{layer.spec.kind == LayerKind::lstm ? RecurrentCell::lstm : RecurrentCell::gru,
                             layer.rows,
                             layer.input[0],
                             layer.input[1],
                             layer.spec.units,
                             layer.spec.last_step_only};
  RecurrentInputs<double> in{layer.value(0), layer.value(1), layer.value(2), layer.value(3), x, {}};
  in.dy = reference::zeros(output_elements(shape));
  return {recurrent_reference(shape, in).y, [=](const Values& dy) {
            RecurrentInputs<double> with_gradient = in;
            with_gradient.dy = dy;
            const RecurrentInputs<double> g = recurrent_reference(shape, with_gradient).gradients;
            layer.add(0, g.w_input);
            layer.add(1, g.w_hidden);
            layer.add(2, g.b_input);
            layer.add(3, g.b_hidden);
            return g.x;
          }};
}

/// relu?(norm(conv(x)) + residual); backward returns the gradient of x, `d_residual` gets that of the residual. The
/// tensors are weight, gain and bias from index `first` on.
Pass conv_norm(const LayerView& layer, const reference::ConvSizes& sizes, const Values& x, size_t first, bool relu,
               const Values& residual = {}, Values* d_residual = nullptr) {
  const Values w = layer.value(first), gain = layer.value(first + 1);
  const Values c = reference::conv(sizes, x, w);
  const Values y = reference::normalise_channels(c, reference::channel_moments(c, sizes.out), gain,
                                                 layer.value(first + 2), residual, relu);
  return {y, [=](const Values& dy) {
            const Values passed = relu ? reference::relu_gradient(dy, y) : dy;
            if (d_residual) *d_residual = passed;
            const auto g = reference::batch_norm_gradients(passed, c, gain);
            layer.add(first, reference::conv_filter_gradient(sizes, x, g.dx));
            layer.add(first + 1, g.dgamma);
            layer.add(first + 2, g.dbeta);
            return reference::conv_data_gradient(sizes, g.dx, w);
          }};
}

reference::ConvSizes sizes_of(const LayerView& layer, int64_t kernel) {
  return {layer.rows,       layer.input[0], layer.input[1],    layer.input[2],
          layer.spec.units, kernel,         layer.spec.stride, kernel / 2};
}

Pass conv(const LayerView& layer, const Values& x) {
  return conv_norm(layer, sizes_of(layer, layer.spec.kernel), x, 0, true);
}

/// What comes before the last convolution of a block, and the sizes of that.
std::pair<std::vector<Pass>, reference::ConvSizes> inner_convolutions(const LayerView& layer, const Values& x) {
  const int64_t b = layer.spec.bottleneck;
  reference::ConvSizes outer = sizes_of(layer, 3);
  if (b == 0)
    return {{conv_norm(layer, outer, x, 0, true)},
            {outer.rows, outer.out_height(), outer.out_width(), outer.out, outer.out, 3, 1, 1}};
  const reference::ConvSizes narrowing{outer.rows, outer.height, outer.width, outer.in, b, 1, 1, 0};
  outer.in = outer.out = b;
  const Pass first = conv_norm(layer, narrowing, x, 0, true);
  return {{first, conv_norm(layer, outer, first.output, 3, true)},
          {outer.rows, outer.out_height(), outer.out_width(), b, layer.spec.units, 1, 1, 0}};
}

Pass residual_block(const LayerView& layer, const Values& x) {
  const auto [inner, sizes] = inner_convolutions(layer, x);
  const size_t last_tensor = 3 * inner.size();
  const bool projects = layer.spec.stride > 1 || layer.input[2] != layer.spec.units;
  const Pass shortcut = projects ? conv_norm(layer, sizes_of(layer, 1), x, last_tensor + 3, false)
                                 : Pass{x, [](const Values& dy) { return dy; }};
  const auto d_residual = std::make_shared<Values>();
  const Pass last = conv_norm(layer, sizes, inner.back().output, last_tensor, true, shortcut.output, d_residual.get());
  return {last.output, [last, inner = inner, shortcut, d_residual](const Values& dy) {
            Values dx = last.backward(dy);
            for (size_t i = inner.size(); i-- > 0;) dx = inner[i].backward(dx);
            return reference::sum_of(dx, shortcut.backward(*d_residual));
          }};
}

Pass max_pool(const LayerView& layer, const Values& x) {
  reference::ConvSizes sizes = sizes_of(layer, layer.spec.kernel);
  sizes.out = sizes.in;
  return {reference::max_pool(sizes, x), [=](const Values& dy) { return reference::max_pool_gradient(sizes, x, dy); }};
}

Pass average_pool(const LayerView& layer, const Values& x) {
  const int64_t pixels = layer.input[0] * layer.input[1], channels = layer.input[2], rows = layer.rows;
  return {reference::average_pool(x, rows, pixels, channels),
          [=](const Values& dy) { return reference::average_pool_gradient(dy, rows, pixels, channels); }};
}

Pass run_layer(const LayerView& layer, const Values& x) {
  switch (layer.spec.kind) {
    case LayerKind::dense:
      return dense(layer, x);
    case LayerKind::embedding:
      return embedding(layer, x);
    case LayerKind::projection:
      return projection(layer, x);
    case LayerKind::transformer_block:
      return block(layer, x);
    case LayerKind::layer_norm:
      return norm(layer, x, 0);
    case LayerKind::pool:
      return pool(layer, x);
    case LayerKind::lstm:
    case LayerKind::gru:
      return recurrent(layer, x);
    case LayerKind::conv:
      return conv(layer, x);
    case LayerKind::residual_block:
      return residual_block(layer, x);
    case LayerKind::average_pool:
      return average_pool(layer, x);
    case LayerKind::max_pool:
      return max_pool(layer, x);
    case LayerKind::token_head:
      return linear(layer, x, 0, layer.input[1], layer.spec.vocabulary, false);
    default:
      throw std::logic_error("the reference has no such layer");
  }
}

}  // namespace

ReferenceModel::Result ReferenceModel::run(const Values& parameters, const std::vector<float>& features,
                                           const std::vector<float>& targets, int64_t rows) const {
  Result result;
  result.gradients.assign(parameters.size(), 0.0);
  Values x(features.begin(), features.end());
  const int64_t end = spec_.layers.front().end_token;
  const std::vector<int32_t> starts =
      end < 0 ? std::vector<int32_t>{} : reference::document_starts(x, spec_.input_width, end);
  std::vector<Pass> passes;
  std::vector<LayerView> views;
  views.reserve(spec_.layers.size());
  for (size_t i = 0; i < spec_.layers.size(); ++i) {
    const bool tied = spec_.layers[i].tied;
    views.push_back({spec_.layers[i], spec_.layer_input_shape(i), rows, layout_.layers[tied ? 0 : i].tensors,
                     parameters, result.gradients, starts});
    passes.push_back(run_layer(views.back(), x));
    x = passes.back().output;
  }
  result.outputs = x;
  const Values wanted(targets.begin(), targets.end());
  Values d_output(x.size());
  if (spec_.loss == LossKind::mse) {
    for (size_t i = 0; i < x.size(); ++i) {
      const double difference = x[i] - wanted[i];
      result.loss += difference * difference / static_cast<double>(x.size());
      d_output[i] = 2 * difference / static_cast<double>(x.size());
    }
  } else {
    const int64_t classes = spec_.output_width();
    const auto loss = reference::cross_entropy(x, wanted, classes, classes, 1.0 / static_cast<double>(wanted.size()));
    result.loss = loss.loss, result.correct = loss.correct, d_output = loss.gradient;
  }
  for (size_t i = passes.size(); i-- > 0;) d_output = passes[i].backward(d_output);
  return result;
}

}  // namespace amdahl::test
