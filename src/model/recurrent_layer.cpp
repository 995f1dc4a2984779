// LSTM and GRU over [rows, steps, features]: one call of RecurrentOps each way.
#include <fmt/format.h>

#include <algorithm>

#include "model/typed_layer.h"

namespace amdahl {
namespace {

class RecurrentLayer final : public TypedLayer {
 public:
  explicit RecurrentLayer(const LayerContext& context) : TypedLayer(context) {
    if (type() == DType::f16)
      throw Error(Cause::usage,
                  fmt::format("layer {} ({}) does not compute in fp16", context.index, row_of(context.spec.kind).name),
                  "`math=bf16`, tf32 or fp32");
  }

  LayerState make_state(int64_t max_rows) const override {
    LayerState state = TypedLayer::make_state(max_rows);
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

/// Cells whose units tensor parallelism divides: after each step the ranks gather the states, before each step backward
/// they sum their parts of the states' gradients.
class DividedRecurrentLayer final : public TypedLayer {
 public:
  explicit DividedRecurrentLayer(const LayerContext& context) : TypedLayer(context) {
    if (!cells().takes(type()))
      throw Error(Cause::usage,
                  fmt::format("layer {} ({}) under tensor parallelism does not compute in {} here", context.index,
                              row_of(context.spec.kind).name, to_string(type())),
                  "`math=fp32`, or a plan without tp");
  }

  LayerState make_state(int64_t max_rows) const override {
    LayerState state = TypedLayer::make_state(max_rows);
    const int64_t bytes = cells().saved_bytes(shard_of(max_rows, nullptr, nullptr));
    state.saved.push_back(context().device.allocate(static_cast<size_t>(bytes)));
    ScratchParts forward(nullptr), backward(nullptr);
    take_states(forward, max_rows);
    take_work(backward, max_rows);
    context().scratch.reserve(std::max(forward.bytes(), backward.bytes()));
    return state;
  }

 protected:
  void compute(Stream& stream, const LayerRows& rows, const float* input, LayerState& state) override {
    const RecurrentShard shard = shard_of(rows.rows, input, state.saved[0]->data());
    ScratchParts parts(context().scratch.data());
    const auto [mine, all] = take_states(parts, rows.rows);
    cells().begin(stream, shard);
    for (int64_t t = 0; t < shard.shape.steps; ++t) {
      cells().step(stream, shard, t, mine);
      context().tensor->gather(stream, mine, all, rows.rows * shard.held);
      cells().take_states(stream, shard, t, all, state.out());
    }
  }
  void gradients(Stream& stream, const LayerRows& rows, const float* input, const LayerState& state, float* d_input,
                 bool accumulate) override {
    const RecurrentShard shard = shard_of(rows.rows, input, state.saved[0]->data());
    ScratchParts parts(context().scratch.data());
    const RecurrentShardOps::Work work = take_work(parts, rows.rows);
    for (int64_t t = shard.shape.steps - 1; t >= 0; --t) {
      cells().step_gradients(stream, shard, t, state.d_out(), work);
      if (t > 0) sum_parts(stream, work.d_states, rows.rows * spec().units, DType::f32);
    }
    const RecurrentWeights<float> gradients{tensor(0).gradient, tensor(1).gradient, tensor(2).gradient,
                                            tensor(3).gradient};
    cells().finish_gradients(stream, shard, work, gradients, d_input, accumulate);
    if (d_input) sum_parts(stream, d_input, rows.rows * input_width(), DType::f32);
  }

 private:
  RecurrentShardOps& cells() const { return ops().recurrent().shards(); }
  int64_t held() const { return spec().units / place().size; }
  RecurrentShard shard_of(int64_t rows, const float* x, void* saved) const {
    const RecurrentCell cell = spec().kind == LayerKind::lstm ? RecurrentCell::lstm : RecurrentCell::gru;
    return {{cell, rows, context().input[0], context().input[1], spec().units, spec().last_step_only, type()},
            held(),
            place().rank * held(),
            {tensor(0).value, tensor(1).value, tensor(2).value, tensor(3).value},
            x,
            saved};
  }
  /// The states of this rank and of all ranks after a step.
  std::pair<float*, float*> take_states(ScratchParts& parts, int64_t rows) const {
    float* const mine = parts.floats(rows * held());
    return {mine, parts.floats(rows * spec().units)};
  }
  RecurrentShardOps::Work take_work(ScratchParts& parts, int64_t rows) const {
    RecurrentShardOps::Work work{};
    work.d_gates = parts.floats(context().input[0] * rows * 4 * held());
    work.d_own = parts.floats(rows * held()), work.d_cell = parts.floats(rows * held());
    work.d_states = parts.floats(rows * spec().units);
    return work;
  }
};

}  // namespace

std::unique_ptr<Layer> make_recurrent_layer(const LayerContext& context) {
  if (context.tensor) return std::make_unique<DividedRecurrentLayer>(context);
  return std::make_unique<RecurrentLayer>(context);
}

}  // namespace amdahl
