// Holds a stream until a whole sequence of calls is enqueued, on devices without graphs.
#pragma once

#include <functional>
#include <memory>

#include "transfer/transfer.h"

namespace amdahl {

/// Makes a device's Transfer, which provides the gates. Supplied by the composition root, which knows the backends.
using MakeTransfer = std::unique_ptr<Transfer> (*)(Device& device);

/// Without it, a host that enqueues short calls more slowly than the device executes them would be measured instead of
/// the device, and by a different amount for one device than for several that wait for each other.
class CallQueue {
 public:
  /// Holds nothing on devices with graphs, whose launch is one host call, or without `make_transfer`.
  CallQueue(Device& device, MakeTransfer make_transfer, double timeout_seconds);

  /// Runs `enqueue`; the work that it enqueues on `stream` starts when `enqueue` returns. `enqueue` must not wait for
  /// the stream.
  void run(Stream& stream, const std::function<void()>& enqueue);

 private:
  double timeout_seconds_;
  std::unique_ptr<Transfer> transfer_;  // null where nothing is held
};

}  // namespace amdahl
