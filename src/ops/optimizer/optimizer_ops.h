// OptimizerOps: optimizer steps over contiguous parameters, on one device or across devices with peer access, and what
// they read: the learning rate of a schedule and the scale that clips the gradients.
#pragma once

#include <cstdint>
#include <memory>

#include "device/device.h"
#include "ops/loss_scale.h"
#include "ops/optimizer/adam_step.h"
#include "ops/optimizer/learning_rate.h"
#include "ops/optimizer/peer_update.h"

namespace amdahl {

/// velocity = momentum * velocity + grad; param -= lr * velocity (PyTorch's form, no dampening).
struct SgdStep {
  float* params;
  const float* grads;
  float* velocity;
  int64_t n;
  float lr, momentum;
  StepFactors factors{};
  ChangeSums changes{};  // of params and velocity
};

/// *sum = the sum of the squares of values[n], added to *sum with `accumulate`. In a fixed order that does not depend
/// on the device: equal values give equal bits on devices of one backend.
struct SumOfSquares {
  const float* values;
  int64_t n;
  float* sum;
  bool accumulate;
};

inline constexpr float kClipEpsilon = 1e-6f;  // keeps the scale finite for gradients of zero

/// *scale = min(1, limit / (sqrt(*sum) + kClipEpsilon)): gradients times it have a norm of at most `limit`. With a loss
/// scale, advance_loss_scale instead; a limit of 0 then clips nothing.
struct ClipScale {
  const float* sum;  // of the squares of all gradients
  float limit;
  float* scale;
  LossScale* loss_scale = nullptr;
};

class OptimizerOps {
 public:
  virtual ~OptimizerOps() = default;
  virtual void adam_step(Stream& stream, const AdamStep& a) = 0;
  virtual void sgd_step(Stream& stream, const SgdStep& a) = 0;
  virtual void set_rate(Stream& stream, const SetRate& a) = 0;
  virtual void sum_of_squares(Stream& stream, const SumOfSquares& a) = 0;
  virtual void clip_scale(Stream& stream, const ClipScale& a) = 0;
  /// *sum += the sum of the bits of n values as 32-bit integers: what ChangeSums are compared with.
  virtual void sum_bits(Stream& stream, const float* values, int64_t n, uint32_t* sum) = 0;
  /// Whether the backend can update parameters in the memory of other ranks.
  virtual bool has_peer_updates() const { return false; }
  /// Makes this rank's updater. Null where the backend has no peer updates.
  virtual std::unique_ptr<PeerUpdater> join_peers(const PeerMemory& memory) {
    (void)memory;
    return nullptr;
  }
};

}  // namespace amdahl
