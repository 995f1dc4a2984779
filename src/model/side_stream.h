// SideStream: a second stream on which the gradients of filters run beside those of images. Neither fills a GPU where
// the images are small, and one reads tensors at the memory's rate while the other multiplies.
#pragma once

#include <array>
#include <memory>

#include "device/device.h"

namespace amdahl {

/// Used by one host thread. Work of a layer may last while the layer below runs, not beyond: layers take turns with two
/// sets of temporary memory.
class SideStream {
 public:
  explicit SideStream(Device& device)
      : stream_(device.make_stream("side")),
        started_(device.make_event()),
        finished_{device.make_event(), device.make_event()} {}

  /// Before the layer that uses memory `set`, 0 or 1, writes there: `stream` waits for the work that reads it.
  void begin_layer(Stream& stream, size_t set) {
    if (in_flight_[set]) stream.wait(*finished_[set]);
    in_flight_[set] = false;
  }
  /// Calls work(Stream&) with the side stream, which starts after what is in `stream`.
  template <class Work>
  void run(Stream& stream, size_t set, const Work& work) {
    stream.record(*started_);
    stream_->wait(*started_);
    work(*stream_);
    stream_->record(*finished_[set]);
    in_flight_[set] = true;
  }
  /// `stream` waits for everything.
  void join(Stream& stream) {
    for (const size_t set : {0, 1}) begin_layer(stream, set);
  }

 private:
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Event> started_;
  std::array<std::unique_ptr<Event>, 2> finished_;
  std::array<bool, 2> in_flight_{};
};

}  // namespace amdahl
