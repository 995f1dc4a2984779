// Time stamps of one instrumented step on one rank, from which the step account is made.
#pragma once

#include <memory>
#include <vector>

#include "device/device.h"

namespace amdahl {

/// A pair of stamps around a piece of work on one stream.
struct Span {
  std::unique_ptr<Event> start, end;
};

/// Events are made at first use and used again by later steps, so a captured graph renews the same stamps at each
/// replay.
struct StepStamps {
  explicit StepStamps(Device& device) : device_(device) {}

  Span step, input, forward, backward;
  std::vector<Span> stalls;       // compute stream waiting for a bucket, in bucket order
  std::vector<Span> collectives;  // communication of a bucket on its stream, same order
  std::vector<Span> updates;      // optimizer

  void start(Stream& stream, Span& span) {
    if (!span.start) span.start = device_.make_event();
    stream.stamp(*span.start);
  }
  void end(Stream& stream, Span& span) {
    if (!span.end) span.end = device_.make_event();
    stream.stamp(*span.end);
  }
  static Span& at(std::vector<Span>& spans, size_t index) {
    if (spans.size() <= index) spans.resize(index + 1);
    return spans[index];
  }
  double us(const Span& span) const {
    return span.start && span.end ? device_.elapsed_us(*span.start, *span.end) : 0.0;
  }

 private:
  Device& device_;
};

}  // namespace amdahl
