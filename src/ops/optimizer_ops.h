// OptimizerOps: optimizer steps over contiguous parameters, on one device or across devices that reach each other.
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
  /// Bytes of flags that each rank of a peer group brings; 0: this backend has no peer updates.
  virtual size_t peer_flag_bytes() const { return 0; }
  /// This rank's end of a group whose devices all reach each other. Null where the backend has no peer updates.
  virtual std::unique_ptr<PeerUpdater> join_peers(const PeerGroup& group) {
    (void)group;
    return nullptr;
  }
};

}  // namespace amdahl
