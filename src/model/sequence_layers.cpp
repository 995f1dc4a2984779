// Layers at the ends of sequence models: embedding, projection, normalisation and pooling.
#include <algorithm>

#include "model/typed_layer.h"

namespace amdahl {
namespace {

/// Tokens [rows, steps] -> [rows, steps, units].
class EmbeddingLayer final : public TypedLayer {
 public:
  using TypedLayer::TypedLayer;

  LayerState make_state(int64_t max_rows) const override {
    reserve_tokens(output_tokens(max_rows), spec().units);
    return TypedLayer::make_state(max_rows);
  }

 protected:
  void compute(Stream& stream, const LayerRows& rows, const float* input, LayerState& state) override {
    const bool adds = place().rank == 0;  // of the ranks that divide the table, one adds what is not divided
    const TokenPart part = output_tokens(rows.rows);
    float* const out = part.is_divided() ? token_scratch() : state.out();
    ops().sequence().embedding_forward(stream, {.tokens = input,
                                                .table = tensor(0).value,
                                                .positions = adds ? value_of(positions()) : nullptr,
                                                .common = adds ? value_of(types()) : nullptr,
                                                .out = out,
                                                .rows = rows.rows,
                                                .steps = steps(),
                                                .width = spec().units,
                                                .vocabulary = held().rows(),
                                                .first = held().begin,
                                                .is_shard = context().tensor != nullptr,
                                                .starts = rows.starts});
    if (!part.is_divided()) return sum_parts(stream, out, rows.rows * output_width(), DType::f32);
    part.sum(stream, out, spec().units, DType::f32);
    take_tokens(stream, part, out, state.out(), spec().units);
  }
  void gradients(Stream& stream, const LayerRows& rows, const float* input, const LayerState& state, float*,
                 bool accumulate) override {
    const auto gradient_of = [](const ParameterView* view) { return view ? view->gradient : nullptr; };
    const auto table_bytes = static_cast<size_t>(table_rows() * spec().units) * sizeof(float);
    if (!accumulate && !context().tied) context().device.fill_zero(stream, tensor(0).gradient, table_bytes);
    // Gradients of token types other than 0 stay zero, as Model::initialise left them.
    ops().sequence().embedding_backward(
        stream, {.tokens = input,
                 .d_out = output_tokens(rows.rows).gather(stream, state.d_out(), token_scratch(), spec().units),
                 .d_table = tensor(0).gradient,
                 .d_positions = gradient_of(positions()),
                 .d_common = gradient_of(types()),
                 .rows = rows.rows,
                 .steps = steps(),
                 .width = spec().units,
                 .vocabulary = held().rows(),
                 .accumulate = accumulate,
                 .first = held().begin,
                 .is_shard = context().tensor != nullptr,
                 .starts = rows.starts});
  }

 private:
  int64_t table_rows() const { return vocabulary_rows(spec().vocabulary, place()).rows(); }
  /// The tokens whose vectors are here.
  RowRange held() const {
    const RowRange rows = vocabulary_rows(spec().vocabulary, place());
    return {rows.begin, std::min(rows.end, spec().vocabulary)};
  }
  int64_t steps() const { return context().input[0]; }
  const ParameterView* positions() const { return spec().positions ? &tensor(1) : nullptr; }
  const ParameterView* types() const { return spec().token_types > 0 ? &tensor(spec().positions ? 2 : 1) : nullptr; }
  static const float* value_of(const ParameterView* view) { return view ? view->value : nullptr; }
};

/// In which a projection computes: products of 16 bits need rows of 16 bytes.
DType projection_type(const Shape& input, DType type) { return input[1] % 8 == 0 ? type : DType::f32; }

/// [rows, steps, features] -> [rows, steps, units].
class ProjectionLayer final : public TypedLayer {
 public:
  explicit ProjectionLayer(const LayerContext& context)
      : TypedLayer(context, projection_type(context.input, context.ops.compute_type())) {}

  LayerState make_state(int64_t max_rows) const override {
    LayerState state = TypedLayer::make_state(max_rows);
    if (!computes_in_f32()) state.saved.push_back(buffer(max_rows * input_width(), type()));
    ScratchParts parts(nullptr);
    parts.floats(output_tokens(max_rows).gathered() * (context().gives_part ? spec().units : 0));
    parts.take(max_rows * output_width(), type());
    context().scratch.reserve(parts.bytes());
    return state;
  }

 protected:
  void compute(Stream& stream, const LayerRows& rows, const float* input, LayerState& state) override {
    convert_parameters(stream);
    const int64_t sequence_rows = rows.rows * context().input[0], width = spec().units;
    const void* x = input;
    if (!computes_in_f32()) {
      ops().matmul().convert(stream, input, state.saved[0]->data(), type(), rows.rows * input_width());
      x = state.saved[0]->data();
    }
    const TokenPart part = output_tokens(rows.rows);
    float* const out = part.is_divided() ? token_scratch() : state.out();
    void* const y = computes_in_f32() ? out : typed_scratch(rows.rows);
    ops().matmul().matmul(stream, {.a = x,
                                   .b = typed(0),
                                   .c = y,
                                   .m = sequence_rows,
                                   .n = width,
                                   .k = context().input[1],
                                   .transpose_b = true,
                                   .type = type(),
                                   .c_type = type(),
                                   .epilogue = MatMulEpilogue::bias,
                                   .bias = typed(1)});
    if (spec().positions || !computes_in_f32())
      ops().sequence().add_positions(
          stream, {y, spec().positions ? tensor(2).value : nullptr, out, rows.rows, context().input[0], width, type()});
    if (part.is_divided()) take_tokens(stream, part, out, state.out(), width);
  }
  void gradients(Stream& stream, const LayerRows& rows, const float* input, const LayerState& state, float* d_input,
                 bool accumulate) override {
    const int64_t steps = context().input[0], sequence_rows = rows.rows * steps, width = spec().units;
    const float* const d_out = output_tokens(rows.rows).gather(stream, state.d_out(), token_scratch(), width);
    if (spec().positions)
      ops().sequence().positions_gradient(stream, {d_out, tensor(2).gradient, rows.rows, steps, width, accumulate});
    const void *dy = d_out, *x = input;
    if (!computes_in_f32()) {
      void* const converted = typed_scratch(rows.rows);
      ops().matmul().convert(stream, d_out, converted, type(), sequence_rows * width);
      dy = converted;
      x = state.saved[0]->data();
    }
    ops().matmul().matmul(stream, {.a = dy,
                                   .b = x,
                                   .c = tensor(0).gradient,
                                   .m = width,
                                   .n = context().input[1],
                                   .k = sequence_rows,
                                   .transpose_a = true,
                                   .type = type(),
                                   .epilogue = MatMulEpilogue::sum_rows_of_a,
                                   .dbias = tensor(1).gradient,
                                   .accumulate = accumulate,
                                   .accumulate_dbias = accumulate});
    if (d_input)
      ops().matmul().matmul(stream, {.a = dy,
                                     .b = typed(0),
                                     .c = d_input,
                                     .m = sequence_rows,
                                     .n = context().input[1],
                                     .k = width,
                                     .type = type()});
  }

 private:
  /// Scratch for the output in the compute type, after that for all tokens.
  void* typed_scratch(int64_t rows) const {
    ScratchParts parts(context().scratch.data());
    parts.floats(output_tokens(rows).gathered() * (context().gives_part ? spec().units : 0));
    return parts.take(rows * output_width(), type());
  }
};

/// Normalises every step of [rows, steps, units].
class NormLayer final : public TypedLayer {
 public:
  using TypedLayer::TypedLayer;

  LayerState make_state(int64_t max_rows) const override {
    LayerState state = TypedLayer::make_state(max_rows);
    for (size_t i = 0; i < parameters().size(); ++i)  // 1 / deviation, and the mean of a centred normalisation
      state.saved.push_back(buffer(input_tokens(max_rows).each(), DType::f32));
    ScratchParts sums(nullptr);
    sums.floats(static_cast<int64_t>(parameters().size()) * context().input[1]);
    if (context().takes_part) context().scratch.reserve(sums.bytes());
    return state;
  }

 protected:
  void compute(Stream& stream, const LayerRows& rows, const float* input, LayerState& state) override {
    if (input_tokens(rows.rows).own() == 0) return;
    ops().norm().layer_norm_forward(stream, {.x = input,
                                             .gamma = tensor(0).value,
                                             .beta = is_centred() ? tensor(1).value : nullptr,
                                             .y = state.out(),
                                             .mean = mean_of(state),
                                             .rstd = state.saved[0]->as<float>(),
                                             .rows = input_tokens(rows.rows).own(),
                                             .width = context().input[1],
                                             .epsilon = static_cast<float>(spec().epsilon)});
  }
  void gradients(Stream& stream, const LayerRows& rows, const float* input, const LayerState& state, float* d_input,
                 bool accumulate) override {
    const int64_t width = context().input[1];
    const auto finish = [&](float* sums) {
      finish_gradients(stream, *context().tokens, sums, parameters(), width, accumulate);
    };
    float* const sums = context().takes_part ? token_scratch() : nullptr;  // of this rank's tokens alone
    if (sums && input_tokens(rows.rows).own() == 0) {
      context().device.fill_zero(stream, sums, parameters().size() * static_cast<size_t>(width) * sizeof(float));
      return finish(sums);
    }
    float* const d_bias = sums ? sums + width : tensor(parameters().back()).gradient;
    ops().norm().layer_norm_backward(stream, {.dy = state.d_out(),
                                              .x = input,
                                              .gamma = tensor(0).value,
                                              .mean = mean_of(state),
                                              .rstd = state.saved[0]->as<float>(),
                                              .dx = d_input,
                                              .dgamma = sums ? sums : tensor(0).gradient,
                                              .dbeta = is_centred() ? d_bias : nullptr,
                                              .rows = input_tokens(rows.rows).own(),
                                              .width = width,
                                              .accumulate = accumulate && !sums});
    if (sums) finish(sums);
  }

 private:
  bool is_centred() const { return spec().norm == NormKind::layer; }
  std::vector<size_t> parameters() const { return is_centred() ? std::vector<size_t>{0, 1} : std::vector<size_t>{0}; }
  float* mean_of(const LayerState& state) const { return is_centred() ? state.saved[1]->as<float>() : nullptr; }
};

/// [rows, steps, units] -> [rows, units].
class PoolLayer final : public TypedLayer {
 public:
  using TypedLayer::TypedLayer;

  LayerState make_state(int64_t max_rows) const override {
    reserve_tokens(input_tokens(max_rows), context().input[1]);
    return TypedLayer::make_state(max_rows);
  }

 protected:
  void compute(Stream& stream, const LayerRows& rows, const float* input, LayerState& state) override {
    const int64_t width = context().input[1];
    const float* const x = input_tokens(rows.rows).gather(stream, input, token_scratch(), width);
    ops().sequence().pool_steps(stream, {spec().pooling, x, state.out(), rows.rows, context().input[0], width});
  }
  void gradients(Stream& stream, const LayerRows& rows, const float*, const LayerState& state, float* d_input,
                 bool) override {
    if (!d_input) return;
    const TokenPart part = input_tokens(rows.rows);
    const int64_t width = context().input[1];
    float* const dx = part.is_divided() ? token_scratch() : d_input;
    ops().sequence().pool_steps_gradient(stream,
                                         {spec().pooling, state.d_out(), dx, rows.rows, context().input[0], width});
    if (part.is_divided()) take_tokens(stream, part, dx, d_input, width);
  }
};

}  // namespace

std::unique_ptr<Layer> make_embedding_layer(const LayerContext& context) {
  return std::make_unique<EmbeddingLayer>(context);
}
std::unique_ptr<Layer> make_projection_layer(const LayerContext& context) {
  return std::make_unique<ProjectionLayer>(context);
}
std::unique_ptr<Layer> make_norm_layer(const LayerContext& context) { return std::make_unique<NormLayer>(context); }
std::unique_ptr<Layer> make_pool_layer(const LayerContext& context) { return std::make_unique<PoolLayer>(context); }

}  // namespace amdahl
