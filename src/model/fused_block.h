// FusedBlock: the passes of a transformer block where the device has one kernel for all of a pass
// (ops/transformer_block_ops.h). Results are those of the separate operations, up to the rounding of sums.
//
//   const FusedBlock fused(ops, shape);
//   if (fused.has_forward()) fused.forward(stream, rows, {input, state.out(), saved, parameters});
#pragma once

#include "model/block_memory.h"
#include "ops/ops.h"

namespace amdahl {

/// Not thread-safe: one stream at a time, as the layer.
class FusedBlock {
 public:
  /// `ops` outlives it. `shape.sequences` is not used. A block that no kernel supports has none of the passes.
  FusedBlock(Ops& ops, const BlockShape& shape);
  /// A block that is computed operation by operation.
  explicit FusedBlock(Ops& ops) : ops_(ops) {}

  bool has_forward() const { return has_forward_; }
  bool has_backward() const { return has_backward_; }

  struct Forward {
    const float* input;
    float* output;
    BlockSaved saved;
    BlockParameters parameters;
  };
  /// `rows`: sequences.
  void forward(Stream& stream, int64_t rows, const Forward& a) const;

  struct Backward {
    const float *input, *d_output;
    float* d_input;
    BlockSaved saved;
    BlockGradients gradients;
    BlockParameters parameters;
    bool accumulate;  // adds to the gradients of the parameters
  };
  void backward(Stream& stream, int64_t rows, const Backward& a) const;

 private:
  void weight_gradients(Stream& stream, int64_t tokens, const Backward& a) const;
  void single_product(Stream& stream, int64_t tokens, const WeightProduct& p, bool accumulate) const;

  Ops& ops_;
  BlockShape shape_{};
  bool has_forward_ = false, has_backward_ = false;
};

}  // namespace amdahl
