// Time stamps of one instrumented step on one rank, from which the step account is made.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "device/device.h"

namespace amdahl {

/// A pair of stamps around a piece of work on one stream.
struct Span {
  std::unique_ptr<Event> start, end;
};

/// A GEMM or other pass within forward or backward, named for a trace.
struct StampedPiece {
  std::string name;
  const char* stream = "";
  Span span;
};

/// Events are created on first use and reused by later steps, so each replay of a captured graph records the same
/// events again.
///
/// `detailed`: also record `pieces`, which cost two events each. For a trace, not for the account.
struct StepStamps {
  explicit StepStamps(Device& device, bool with_pieces = false) : detailed(with_pieces), device_(device) {}

  const bool detailed;

  Span step, input, forward, backward;
  std::vector<Span> stalls;              // compute stream waiting for a bucket, in bucket order
  std::vector<Span> collectives;         // communication of a bucket on its stream, same order
  std::vector<Span> updates;             // optimizer
  std::vector<int64_t> bytes;            // payload of each of `collectives` on this rank
  bool communicates_on_compute = false;  // `collectives` run on the compute stream and equal `stalls`
  std::vector<StampedPiece> pieces;      // in the order they were enqueued

  /// Call before a step is enqueued with these stamps.
  void begin() { num_pieces_ = 0; }
  void begin_piece(Stream& stream, const char* stream_name, std::string name) {
    if (num_pieces_ == pieces.size()) pieces.emplace_back();
    pieces[num_pieces_].name = std::move(name);
    pieces[num_pieces_].stream = stream_name;
    start(stream, pieces[num_pieces_].span);
  }
  void end_piece(Stream& stream) { end(stream, pieces[num_pieces_++].span); }
  void set_bytes(size_t order, int64_t payload) {
    if (bytes.size() <= order) bytes.resize(order + 1);
    bytes[order] = payload;
  }

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
  size_t num_pieces_ = 0;  // of the step that is being enqueued
};

}  // namespace amdahl
