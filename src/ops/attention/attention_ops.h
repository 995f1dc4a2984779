// AttentionOps: softmax(q k^T / sqrt(head_width)) v per head, forward and backward, without the matrix of scores in
// memory.
#pragma once

#include <cstdint>

#include "amdahl/tensor.h"
#include "device/device.h"

namespace amdahl {

struct AttentionShape {
  int64_t batch, steps, heads, head_width;
  bool causal = false;  // step t attends to steps 0 .. t only
  DType type = DType::f32;
};

/// qkv [batch, steps, 3, heads, head_width], out [batch, steps, heads, head_width], both of the shape's type;
/// log_sums [batch, heads, steps] f32: logarithm of the sum of exponentials of each row of scores.
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

class AttentionOps {
 public:
  virtual ~AttentionOps() = default;
  virtual void attention_forward(Stream& stream, const AttentionForward& a) = 0;
  virtual void attention_backward(Stream& stream, const AttentionBackward& a) = 0;
};

}  // namespace amdahl
