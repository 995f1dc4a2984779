// What a pattern runs with on its rank.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "device/cpu_stream.h"
#include "parallel/rank_context.h"
#include "symmetric/cpu_team.h"
#include "symmetric/symmetric_heap.h"

namespace amdahl {

struct PatternRank {
  static constexpr size_t kHeapBytes = size_t{8} << 20;

  PatternRank(RankContext& context_, double timeout_seconds)
      : context(context_),
        heap(context_.device, context_.communicator, kHeapBytes, timeout_seconds),
        team(heap.memory()),
        stream(context_.device.make_stream("pattern")),
        prefetch(context_.device.make_stream("prefetch")),
        timeout(timeout_seconds) {}

  RankContext& context;
  SymmetricHeap heap;
  CpuTeam team;
  std::unique_ptr<Stream> stream, prefetch;
  double timeout;

  int rank() const { return context.rank; }
  int world() const { return context.world_size; }
  int next() const { return (rank() + 1) % world(); }
  int previous() const { return (rank() + world() - 1) % world(); }
  Communicator& communicator() { return context.communicator; }
  Deadline deadline() const { return Deadline::after_seconds(timeout); }

  /// Runs `work` on the stream's thread, between barriers; returns its time in us.
  template <class Work>
  double timed(const Work& work) {
    return timed_calls([&] { as_cpu(*stream).enqueue(work); });
  }
  /// The same for work that `enqueue` puts on the stream.
  template <class Enqueue>
  double timed_calls(const Enqueue& enqueue) {
    const std::unique_ptr<Event> start = context.device.make_event(), end = context.device.make_event();
    heap.barrier(*stream);
    stream->stamp(*start);
    enqueue();
    stream->stamp(*end);
    stream->synchronize(deadline());
    return context.device.elapsed_us(*start, *end);
  }
};

}  // namespace amdahl
