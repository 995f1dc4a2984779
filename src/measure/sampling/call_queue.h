// Calls that start together with all that follows them, on devices that have no graphs.
#pragma once

#include <functional>
#include <memory>

#include "transfer/transfer.h"

namespace amdahl {

/// Makes what moves bytes on a device, and has its gates; the composition root knows the backends.
using MakeTransfer = std::unique_ptr<Transfer> (*)(Device& device);

/// Without it a host that enqueues short calls more slowly than the device works them off would be what is timed, and
/// differently for one device than for several that wait for each other first.
class CallQueue {
 public:
  /// Where the device has graphs nothing is held: their launch is one call of the host. Nor without `make_transfer`.
  CallQueue(Device& device, MakeTransfer make_transfer, double timeout_seconds);

  /// Runs `enqueue`; what it puts into the stream starts when all of it is there. It must not wait for the stream.
  void run(Stream& stream, const std::function<void()>& enqueue);

 private:
  double timeout_seconds_;
  std::unique_ptr<Transfer> transfer_;  // null where nothing is held
};

}  // namespace amdahl
