#include "parallel/tensor/dense.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/dense_layer.h"
#include "plan/shares.h"

namespace amdahl {
namespace {

void sum_over(const TensorContext& context, float* data, int64_t count, Stream& stream) {
  if (context.silent && *context.silent) return;
  context.tp.all_reduce(data, static_cast<size_t>(count), DType::f32, ReduceOp::sum, stream);
}

/// Column-parallel layer: this rank computes some of its units.
class ColumnDense final : public Layer {
 public:
  ColumnDense(const LayerSpec& spec, const WeightShard& shard, size_t index, const LayerParameters& parameters,
              const TensorContext& context)
      : context_(context),
        local_(local_spec(spec, shard), shard.columns(), index, parameters, context.device, context.ops.gemm(),
               shard.row_begin) {}

  int64_t input_width() const override { return local_.input_width(); }
  int64_t output_width() const override { return local_.output_width(); }
  LayerState make_state(int64_t max_rows) const override { return local_.make_state(max_rows); }
  void forward(Stream& stream, const LayerRows& rows, const float* input, LayerState& state) override {
    local_.forward(stream, rows, input, state);
  }
  GradientEpilogue epilogue(const LayerState& state) const override { return local_.epilogue(state); }

  // The ranks' contributions are summed before the mask of the layer below is applied; its scale is linear and is
  // applied in the GEMM.
  void backward_input(Stream& stream, const LayerRows& rows, const LayerState& state, float* d_input,
                      const GradientEpilogue& below, bool accumulate) override {
    local_.backward_input(stream, rows, state, d_input, {.scale = below.scale}, false);
    sum_over(context_, d_input, rows.rows * input_width(), stream);
    context_.ops.elementwise().mask_and_sum(
        stream, {d_input, below.activation, below.mask, below.dbias, rows.rows, input_width(), accumulate});
  }
  void backward_weight(Stream& stream, const LayerRows& rows, const float* input, const LayerState& state,
                       WeightRows part, bool own_bias, bool accumulate, int reserved_sms) override {
    local_.backward_weight(stream, rows, input, state, part, own_bias, accumulate, reserved_sms);
  }
  void backward(Stream& stream, const LayerRows& rows, const float* input, const LayerState& state, float* d_input,
                const GradientEpilogue& below, bool own_bias, bool accumulate) override {
    local_.backward(stream, rows, input, state, nullptr, {}, own_bias, accumulate);
    if (d_input) backward_input(stream, rows, state, d_input, below, accumulate);
  }
  void backward_update(Stream& stream, const LayerRows& rows, const float* input, const LayerState& state,
                       const AdamStep& adam) override {
    local_.backward_update(stream, rows, input, state, adam);
  }

 private:
  static LayerSpec local_spec(LayerSpec spec, const WeightShard& shard) {
    spec.units = shard.rows();
    return spec;
  }

  TensorContext context_;
  DenseLayer local_;
};

/// Row-parallel layer: this rank holds some of its inputs.
class RowDense final : public Layer {
 public:
  RowDense(const LayerSpec& spec, const WeightShard& shard, size_t index, const LayerParameters& parameters,
           const TensorContext& context)
      : context_(context),
        spec_(spec),
        index_(index),
        parameters_(parameters),
        whole_(spec, shard.columns(), index, parameters, context.device, context.ops.gemm()),
        gemm_({spec.units, false, Activation::none, 0.0}, shard.columns(), index,
              {parameters.weight, nullptr, parameters.d_weight, parameters.d_bias}, context.device,
              context.ops.gemm()) {}

  int64_t input_width() const override { return gemm_.input_width(); }
  int64_t output_width() const override { return spec_.units; }
  LayerState make_state(int64_t max_rows) const override { return whole_.make_state(max_rows); }

  void forward(Stream& stream, const LayerRows& rows, const float* input, LayerState& state) override {
    gemm_.forward(stream, rows, input, state);
    sum_over(context_, state.out(), rows.rows * spec_.units, stream);
    BiasActivation finish{state.out(), parameters_.bias, rows.rows, spec_.units, spec_.activation == Activation::relu};
    if (rows.training && state.mask) finish.mask = state.mask->as<uint8_t>();
    if (rows.training && spec_.dropout > 0)
      finish.dropout = {spec_.dropout, rows.seed, rows.step, static_cast<uint32_t>(index_), rows.row_offset};
    context_.ops.elementwise().bias_activation(stream, finish);
  }
  GradientEpilogue epilogue(const LayerState& state) const override { return whole_.epilogue(state); }
  void backward_input(Stream& stream, const LayerRows& rows, const LayerState& state, float* d_input,
                      const GradientEpilogue& below, bool accumulate) override {
    gemm_.backward_input(stream, rows, state, d_input, below, accumulate);
  }
  void backward_weight(Stream& stream, const LayerRows& rows, const float* input, const LayerState& state,
                       WeightRows part, bool own_bias, bool accumulate, int reserved_sms) override {
    gemm_.backward_weight(stream, rows, input, state, part, own_bias, accumulate, reserved_sms);
  }
  void backward(Stream& stream, const LayerRows& rows, const float* input, const LayerState& state, float* d_input,
                const GradientEpilogue& below, bool own_bias, bool accumulate) override {
    gemm_.backward(stream, rows, input, state, d_input, below, own_bias, accumulate);
  }
  void backward_update(Stream& stream, const LayerRows& rows, const float* input, const LayerState& state,
                       const AdamStep& adam) override {
    gemm_.backward_update(stream, rows, input, state, adam);
  }

 private:
  TensorContext context_;
  LayerSpec spec_;
  size_t index_;
  LayerParameters parameters_;
  DenseLayer whole_;  // gives the layer's state and epilogue
  DenseLayer gemm_;   // this rank's partial GEMM, without bias and activation
};

}  // namespace

std::vector<WeightShard> tensor_shards(const ModelSpec& model, int num_ranks, int rank,
                                       const std::vector<TensorRole>& roles) {
  std::vector<WeightShard> shards;
  for (size_t i = 0; i < roles.size(); ++i) {
    WeightShard shard{0, model.layers[i].units, 0, model.layer_input_width(i)};
    if (roles[i] == TensorRole::column) {
      const RowRange units = column_units(shard.row_end, {num_ranks, rank});
      shard.row_begin = units.begin, shard.row_end = units.end;
    } else if (roles[i] == TensorRole::row) {
      const RowRange units = column_units(shard.column_end, {num_ranks, rank});
      shard.column_begin = units.begin, shard.column_end = units.end;
    }
    shards.push_back(shard);
  }
  return shards;
}

int64_t tensor_traffic_bytes(const ModelSpec& model, int num_ranks, int64_t rows) {
  if (num_ranks < 2) return 0;
  const std::vector<TensorRole> roles = tensor_roles(model);
  int64_t floats = 0;
  for (size_t i = 0; i < roles.size(); ++i) {
    if (roles[i] == TensorRole::row) floats += model.layers[i].units;
    if (roles[i] == TensorRole::column && i > 0) floats += model.layer_input_width(i);
  }
  return floats * rows * static_cast<int64_t>(sizeof(float));
}

LayerFactory tensor_layers(const ModelSpec& model, const std::vector<TensorRole>& roles, const TensorContext& context) {
  return [model, context, roles, shards = tensor_shards(model, context.tp.world_size(), context.tp.rank(), roles)](
             size_t i, const LayerParameters& parameters) -> std::unique_ptr<Layer> {
    const LayerSpec& spec = model.layers[i];
    if (roles[i] == TensorRole::column) return std::make_unique<ColumnDense>(spec, shards[i], i, parameters, context);
    if (roles[i] == TensorRole::row) return std::make_unique<RowDense>(spec, shards[i], i, parameters, context);
    return std::make_unique<DenseLayer>(spec, model.layer_input_width(i), i, parameters, context.device,
                                        context.ops.gemm());
  };
}

ModelOptions tensor_parallel(const ModelSpec& model, const TensorContext& context, ModelOptions options) {
  const int num_ranks = context.tp.world_size();
  const Feasibility feasible = tensor_feasible(model, num_ranks);
  if (!feasible.ok) throw Error(Cause::usage, feasible.reason, "fewer tensor-parallel ranks, or wider layers");
  if (num_ranks == 1) return options;
  options.shards = tensor_shards(model, num_ranks, context.tp.rank());
  options.make_layer = tensor_layers(model, tensor_roles(model), context);
  return options;
}

}  // namespace amdahl
