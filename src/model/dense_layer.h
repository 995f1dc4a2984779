// The dense layer: y = dropout(activation(x W^T + b)).
#pragma once

#include "amdahl/plan.h"
#include "model/layer.h"
#include "ops/gemm/gemm_ops.h"

namespace amdahl {

class DenseLayer final : public Layer {
 public:
  /// `index`: of the layer in the model; dropout draws depend on it. `first_unit`: index in the layer of the first unit
  /// of this shard, a multiple of 4.
  DenseLayer(const LayerSpec& spec, int64_t input_width, size_t index, const LayerParameters& parameters,
             Device& device, GemmOps& ops, int64_t first_unit = 0)
      : spec_(spec),
        input_width_(input_width),
        index_(index),
        first_unit_(first_unit),
        parameters_(parameters),
        device_(device),
        ops_(ops) {}

  int64_t input_width() const override { return input_width_; }
  int64_t output_width() const override { return spec_.units; }
  LayerState make_state(int64_t max_rows) const override;
  void forward(Stream& stream, const LayerRows& rows, const float* input, LayerState& state) override;
  GradientEpilogue epilogue(const LayerState& state) const override;
  void backward_input(Stream& stream, const LayerRows& rows, const LayerState& state, float* d_input,
                      const GradientEpilogue& below, bool accumulate) override;
  void backward_weight(Stream& stream, const LayerRows& rows, const float* input, const LayerState& state,
                       WeightRows part, bool own_bias, bool accumulate, int reserved_sms) override;
  void backward(Stream& stream, const LayerRows& rows, const float* input, const LayerState& state, float* d_input,
                const GradientEpilogue& below, bool own_bias, bool accumulate) override;
  void backward_update(Stream& stream, const LayerRows& rows, const float* input, const LayerState& state,
                       const AdamStep& adam) override;

 private:
  DenseBackwardInput input_gradient(const LayerRows& rows, const LayerState& state, float* d_input,
                                    const GradientEpilogue& below, bool accumulate) const;
  DenseBackwardWeight weight_gradient(const LayerRows& rows, const float* input, const LayerState& state, bool own_bias,
                                      bool accumulate) const;

  LayerSpec spec_;
  int64_t input_width_;
  size_t index_;
  int64_t first_unit_;
  LayerParameters parameters_;
  Device& device_;
  GemmOps& ops_;
};

}  // namespace amdahl
