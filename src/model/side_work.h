// SideWork: work of a CUDA device beside a stream, for kernels that leave multiprocessors idle.
#pragma once

#include <array>
#include <memory>

#include "device/device.h"

namespace amdahl {

/// A second stream that branches off from another and joins it again, also in a captured graph. As Device, not
/// thread-safe.
///
///   begin_beside(side, stream, 0, [&](Stream& second) { weight_gradient(second); });
///   input_gradient(stream);        // meanwhile
///   end_beside(side, stream, 0);   // what follows may overwrite what weight_gradient reads
class SideWork {
 public:
  static constexpr size_t kPlaces = 4;
  static constexpr int64_t kMostTokens = 16'384;  // products of more fill a GPU

  explicit SideWork(Device& device) : device_(device) {}
  /// Whether this device runs work of two streams at once: on a CPU they would share the same cores.
  bool possible() const { return device_.backend() == BackendKind::cuda; }
  /// Enqueues `work(second)` after all that was enqueued on `stream`, and after the work of earlier calls.
  template <class Work>
  void begin(Stream& stream, size_t place, const Work& work) {
    if (!second_) create();
    stream.record(*branch_);
    second_->wait(*branch_);
    work(*second_);
    second_->record(*done_[place]);
  }
  /// Later work on `stream` starts after that of the last begin with this place, and of all calls before it.
  void end(Stream& stream, size_t place) { stream.wait(*done_[place]); }

 private:
  void create() {
    second_ = device_.make_stream("weights");
    branch_ = device_.make_event();
    for (auto& event : done_) event = device_.make_event();
  }

  Device& device_;
  std::unique_ptr<Event> branch_;
  std::array<std::unique_ptr<Event>, kPlaces> done_;
  std::unique_ptr<Stream> second_;  // its work ends before the events are destroyed
};

/// `work(stream)`, on the second stream of `side` unless that is null.
template <class Work>
void begin_beside(SideWork* side, Stream& stream, size_t place, const Work& work) {
  if (side) return side->begin(stream, place, work);
  work(stream);
}
inline void end_beside(SideWork* side, Stream& stream, size_t place) {
  if (side) side->end(stream, place);
}

}  // namespace amdahl
