// SequenceOps: embeddings, positions, pooling over steps, and the loss of token classifiers.
//
// Sequences are [rows, steps, width] f32. Tokens are stored as f32, like class indices of the data set: integers up to
// 2^24 are exact.
#pragma once

#include <cstdint>

#include "amdahl/plan.h"
#include "amdahl/tensor.h"
#include "device/device.h"

namespace amdahl {

/// starts[r,t]: the last step up to t whose token is `end`, where the document of step t begins; 0 where there is none.
struct DocumentStarts {
  const float* tokens;  // [rows, steps]
  int32_t* starts;      // [rows, steps]
  int64_t rows, steps, end;
};

/// out[r,t,:] = table[tokens[r,t],:] + positions[t - starts[r,t],:] + common[:].
struct EmbeddingForward {
  const float* tokens;     // [rows, steps], each in [0, vocabulary)
  const float* table;      // [vocabulary, width]
  const float* positions;  // [steps, width]; null: none
  const float* common;     // [width] token type 0; null: none
  float* out;              // [rows, steps, width]
  int64_t rows, steps, width, vocabulary;
  int64_t first = 0;                // token of the table's first row
  bool is_shard = false;            // other tokens are in other tables, and add nothing here
  const int32_t* starts = nullptr;  // as DocumentStarts sets them; null: 0
};

/// d_table[tokens[r,t],:] += d_out[r,t,:]; the table's gradient is always added to: the caller zeroes it. The other
/// gradients are set, or added to with `accumulate`. Bit-equal between reruns.
struct EmbeddingBackward {
  const float* tokens;
  const float* d_out;  // [rows, steps, width]
  float* d_table;      // [vocabulary, width]
  float* d_positions;  // [steps, width]; null: none
  float* d_common;     // [width]; null: none
  int64_t rows, steps, width, vocabulary;
  bool accumulate = false;
  int64_t first = 0;  // as in EmbeddingForward
  bool is_shard = false;
  const int32_t* starts = nullptr;
};

/// y[r,t,:] = x[r,t,:] + positions[t,:]; x of `type`, y f32 (may be x when `type` is f32).
struct AddPositions {
  const void* x;
  const float* positions;  // [steps, width]; null: a conversion
  float* y;
  int64_t rows, steps, width;
  DType type = DType::f32;
};

/// d_positions[t,:] = sum over rows of d_y[r,t,:] (+ d_positions).
struct PositionsGradient {
  const float* d_y;  // [rows, steps, width]
  float* d_positions;
  int64_t rows, steps, width;
  bool accumulate = false;
};

/// y [rows, width] = mean over steps, or the first or last step, of x [rows, steps, width].
struct PoolSteps {
  Pooling pooling;
  const float* x;
  float* y;
  int64_t rows, steps, width;
};
/// d_x [rows, steps, width] is set everywhere.
struct PoolStepsGradient {
  Pooling pooling;
  const float* d_y;
  float* d_x;
  int64_t rows, steps, width;
};

/// Softmax cross-entropy of tokens. stats[0] += sum(-log p[label]) * scale, stats[1] += rows whose largest logit is the
/// label (first on ties); logits are overwritten with scale * *gradient_scale * (softmax - onehot), zero in columns >=
/// classes. stats is set instead of added to without `accumulate`. Null `stats` is not allowed.
struct TokenLoss {
  void* logits;         // [rows, stride] of `type`
  const float* labels;  // [rows] class indices
  float* stats;
  int64_t rows, classes, stride;  // columns [classes, stride) are padding
  float scale;
  DType type = DType::f32;
  bool accumulate = false;
  bool gradient = true;                   // false: logits stay
  const float* gradient_scale = nullptr;  // on the device (LossScale); null: 1
};

inline constexpr int64_t kShardLossFloats = 4;

/// The loss of tokens where each rank has the logits of some classes. `token_loss_parts` sets parts [rows, 4]: the
/// largest logit here, its class (the first on ties), the sum of exp(logit - largest), and the label's logit, or 0
/// where another rank has it. With the parts of all ranks, [shards, rows, 4] in the order of their classes,
/// `token_loss_of_parts` does what TokenLoss describes, for the logits here and the loss of all.
struct TokenLossShard {
  void* logits;         // [rows, stride] of `type`: classes [first, first + classes), then padding
  const float* labels;  // [rows] indices among all classes
  float* parts;
  int64_t rows, first, classes, stride;
  int shards = 1;
  float* stats = nullptr;
  float scale = 1;
  DType type = DType::f32;
  bool accumulate = false;
};

/// *stat = sum(|prediction - target|) * scale: the mean absolute error for scale = 1 / (rows * width).
struct AbsoluteError {
  const float* prediction;  // [rows, width]
  const float* target;      // [rows, width]
  float* stat;              // one float, set
  int64_t rows, width;
  float scale;
};

class SequenceOps {
 public:
  virtual ~SequenceOps() = default;
  virtual void document_starts(Stream& stream, const DocumentStarts& a) = 0;
  virtual void embedding_forward(Stream& stream, const EmbeddingForward& a) = 0;
  virtual void embedding_backward(Stream& stream, const EmbeddingBackward& a) = 0;
  virtual void add_positions(Stream& stream, const AddPositions& a) = 0;
  virtual void positions_gradient(Stream& stream, const PositionsGradient& a) = 0;
  virtual void pool_steps(Stream& stream, const PoolSteps& a) = 0;
  virtual void pool_steps_gradient(Stream& stream, const PoolStepsGradient& a) = 0;
  virtual void token_loss(Stream& stream, const TokenLoss& a) = 0;
  virtual void token_loss_parts(Stream& stream, const TokenLossShard& a) = 0;
  virtual void token_loss_of_parts(Stream& stream, const TokenLossShard& a) = 0;
  virtual void absolute_error(Stream& stream, const AbsoluteError& a) = 0;
};

}  // namespace amdahl
