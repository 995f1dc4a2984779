// AttentionOps: softmax(q k^T / sqrt(head_width)) v per head, forward and backward, without the matrix of scores in
// memory, and what q and k become before: a normalisation of each head, and a rotation by the step.
#pragma once

#include <cstdint>

#include "amdahl/tensor.h"
#include "device/device.h"

namespace amdahl {

struct AttentionShape {
  int64_t batch, steps, heads, head_width;
  bool causal = false;  // step t attends to steps 0 .. t only
  DType type = DType::f32;
  int64_t kv_heads = 0;  // heads of k and v, a divisor of heads, each for as many neighbouring queries; 0: heads
  int64_t window = 0;    // causal: a step attends to itself and window - 1 earlier ones; 0: to all of them
  /// [batch, steps] causal: the first step that each step attends to, as DocumentStarts sets them; null: 0.
  const int32_t* starts = nullptr;

  int64_t key_heads() const { return kv_heads > 0 ? kv_heads : heads; }
  /// Heads that have the same keys and values.
  int64_t group() const { return heads / key_heads(); }
  int64_t query_width() const { return heads * head_width; }
  int64_t key_width() const { return key_heads() * head_width; }
  /// Of a row of qkv.
  int64_t packed_width() const { return query_width() + 2 * key_width(); }
};

/// qkv [batch, steps, heads + 2 kv_heads, head_width]: q, k, v; out [batch, steps, heads, head_width], both of the
/// shape's type; log_sums [batch, heads, steps] f32: logarithm of the sum of exponentials of each row of scores.
struct AttentionForward {
  AttentionShape shape;
  const void* qkv;
  void* out;
  float* log_sums;
};

/// d_qkv like qkv, d_out like out; the other fields as forward left them.
struct AttentionBackward {
  AttentionShape shape;
  const void* qkv;
  const void* out;
  const float* log_sums;
  const void* d_out;
  void* d_qkv;
};

/// q and k of qkv, in place, head by head: with weights, x / sqrt(mean(x^2) + epsilon) * weight; then, with a rotation,
/// the pair (x[i], x[i + head_width / 2]) is turned by the angle of its step and of i.
struct HeadsForward {
  AttentionShape shape;
  void* qkv;
  const float* q_weight = nullptr;  // [head_width]; null, as k_weight: no normalisation
  const float* k_weight = nullptr;
  void* kept = nullptr;             // [batch, steps, heads + kv_heads, head_width] q and k as they were; with weights
  const float* rotation = nullptr;  // [steps, 2, head_width / 2]: cosines, sines; null: none
  float epsilon = 1e-5f;
};

/// Of the gradient of what HeadsForward left to that of what it got, in place. dq_weight and dk_weight are set, or
/// added to with `accumulate`.
struct HeadsBackward {
  AttentionShape shape;
  void* d_qkv;
  const float* q_weight = nullptr;
  const float* k_weight = nullptr;
  const void* kept = nullptr;
  const float* rotation = nullptr;
  float epsilon = 1e-5f;
  float* dq_weight = nullptr;  // [head_width]; with weights
  float* dk_weight = nullptr;
  bool accumulate = false;
};

class AttentionOps {
 public:
  virtual ~AttentionOps() = default;
  virtual void attention_forward(Stream& stream, const AttentionForward& a) = 0;
  virtual void attention_backward(Stream& stream, const AttentionBackward& a) = 0;
  virtual void heads_forward(Stream& stream, const HeadsForward& a) = 0;
  virtual void heads_backward(Stream& stream, const HeadsBackward& a) = 0;
};

}  // namespace amdahl
