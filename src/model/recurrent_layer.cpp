// LSTM and GRU over [rows, steps, features]: one call of RecurrentOps each way.
#include <fmt/format.h>

#include "model/coarse_layer.h"

namespace amdahl {
namespace {

class RecurrentLayer final : public CoarseLayer {
 public:
  explicit RecurrentLayer(const LayerContext& context) : CoarseLayer(context) {
    if (type() == DType::f16)
      throw Error(Cause::usage,
                  fmt::format("layer {} ({}) does not compute in fp16", context.index, row_of(context.spec.kind).name),
                  "`math=bf16`, tf32 or fp32");
  }

  LayerState make_state(int64_t max_rows) const override {
    LayerState state = CoarseLayer::make_state(max_rows);
    const int64_t bytes = ops().recurrent().saved_bytes(shape_of(max_rows));
    state.saved.push_back(context().device.allocate(static_cast<size_t>(bytes)));
    return state;
  }

 protected:
  void compute(Stream& stream, const LayerRows& rows, const float* input, LayerState& state) override {
    ops().recurrent().recurrent_forward(
        stream, {shape_of(rows.rows), values(), input, state.out(), rows.training ? state.saved[0]->data() : nullptr});
  }
  void gradients(Stream& stream, const LayerRows& rows, const float* input, const LayerState& state, float* d_input,
                 bool accumulate) override {
    const RecurrentWeights<float> gradients{tensor(0).gradient, tensor(1).gradient, tensor(2).gradient,
                                            tensor(3).gradient};
    ops().recurrent().recurrent_backward(stream, {shape_of(rows.rows), values(), gradients, input, state.out(),
                                                  state.d_out(), state.saved[0]->data(), d_input, accumulate});
  }

 private:
  RecurrentShape shape_of(int64_t rows) const {
    const RecurrentCell cell = spec().kind == LayerKind::lstm ? RecurrentCell::lstm : RecurrentCell::gru;
    return {cell, rows, context().input[0], context().input[1], spec().units, spec().last_step_only, type()};
  }
  /// The parameters in the order of layer_kinds: w_input, w_hidden, b_input, b_hidden.
  RecurrentWeights<const float> values() const {
    return {tensor(0).value, tensor(1).value, tensor(2).value, tensor(3).value};
  }
};

}  // namespace

std::unique_ptr<Layer> make_recurrent_layer(const LayerContext& context) {
  return std::make_unique<RecurrentLayer>(context);
}

}  // namespace amdahl
