// OptimizerOps: optimizer steps over contiguous parameters, on one device or across devices with peer access.
#pragma once

#include <cstdint>
#include <memory>

#include "device/device.h"
#include "ops/adam_step.h"
#include "ops/peer_update.h"

namespace amdahl {

/// velocity = momentum * velocity + grad; param -= lr * velocity (PyTorch's form, no dampening).
struct SgdStep {
  float* params;
  const float* grads;
  float* velocity;
  int64_t n;
  float lr, momentum;
};

class OptimizerOps {
 public:
  virtual ~OptimizerOps() = default;
  virtual void adam_step(Stream& stream, const AdamStep& a) = 0;
  virtual void sgd_step(Stream& stream, const SgdStep& a) = 0;
  /// Whether the backend can update parameters in the memory of other ranks.
  virtual bool has_peer_updates() const { return false; }
  /// Makes this rank's updater. Null where the backend has no peer updates.
  virtual std::unique_ptr<PeerUpdater> join_peers(const PeerMemory& memory) {
    (void)memory;
    return nullptr;
  }
};

}  // namespace amdahl
