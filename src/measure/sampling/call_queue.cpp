#include "measure/sampling/call_queue.h"

namespace amdahl {

CallQueue::CallQueue(Device& device, MakeTransfer make_transfer, double timeout_seconds)
    : timeout_seconds_(timeout_seconds) {
  if (make_transfer && !device.supports_graphs().ok) transfer_ = make_transfer(device);
}

void CallQueue::run(Stream& stream, const std::function<void()>& enqueue) {
  if (!transfer_) return enqueue();
  const std::unique_ptr<Gate> gate = transfer_->make_gate(timeout_seconds_);
  gate->hold(stream);
  enqueue();
  gate->open();
}

}  // namespace amdahl
