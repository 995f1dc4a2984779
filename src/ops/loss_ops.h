// LossOps: losses with their gradients. Statistics are two floats in device memory: [0] loss, [1] correct rows.
#pragma once

#include <cstdint>

#include "device/device.h"

namespace amdahl {

inline constexpr int64_t kLossStats = 2;  // floats

/// prediction[B,O] against target[B,O]: sets stats[0] to sum((p-t)^2) * scale (adds it when `accumulate`) and writes
/// d_prediction = 2 * scale * (p-t), times *gradient_scale. For the mean over the global batch, scale = 1 /
/// (global_batch * O).
struct MseLoss {
  const float* prediction;
  const float* target;
  float* d_prediction;
  float* stats;  // [0] loss, [1] number of correct rows (left at 0 here)
  int64_t batch, out;
  float scale;
  bool accumulate;
  const float* gradient_scale = nullptr;  // on the device, of the gradient alone (LossScale); null: 1
};

/// logits[B,C] against labels[B] (class index as float, as the data set stores targets): stats[0] += sum(-log p) *
/// scale, stats[1] += rows whose largest logit is the label (first on ties), d_logits = scale * (softmax - onehot),
/// times *gradient_scale.
struct CrossEntropyLoss {
  const float* logits;
  const float* labels;
  float* d_logits;
  float* stats;
  int64_t batch, classes;
  float scale;
  bool accumulate;
  const float* gradient_scale = nullptr;
};

class LossOps {
 public:
  virtual ~LossOps() = default;
  virtual void mse_loss(Stream& stream, const MseLoss& a) = 0;
  virtual void cross_entropy_loss(Stream& stream, const CrossEntropyLoss& a) = 0;
};

}  // namespace amdahl
