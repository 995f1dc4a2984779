// From the stamps of all ranks to a StepTrace on one clock.
#pragma once

#include <string>
#include <vector>

#include "amdahl/trace.h"
#include "parallel/step_stamps.h"

namespace amdahl {

/// What one rank saw, in us since its own origin: a stamp on its device that was made while nothing else ran.
struct RankTrace {
  std::string device, host;
  bool own_clock = false;       // the device's clock is not its host's, which was read before and after the origin
  double origin_us = 0;         // the origin on the host's steady clock; the middle of the two readings with own_clock
  double window_us = 0;         // between these two readings
  double barrier_us = 0;        // when this rank left a barrier of all ranks, on the host's steady clock
  double barrier_width_us = 0;  // how long it was in it
  std::vector<TraceEvent> events;  // `rank` not yet set
};

/// What a step's stamps say, in us since `origin`, a stamp of the same device. Everything has passed.
std::vector<TraceEvent> stamped_events(Device& device, const StepStamps& stamps, const Event& origin, int64_t step);

/// Ranks of one host have its steady clock in common; those of another are taken to have left the barrier when rank 0
/// did. `start_us` of the earliest event becomes 0. Fills ranks and events.
StepTrace merge_traces(const std::vector<RankTrace>& ranks);

/// us from the start of a traced step to that of the next on the same rank, the median; how long the step itself is
/// where no two follow each other.
double traced_step_us(const StepTrace& trace);
/// What the stamps of a trace do to its steps: "A traced step takes 49.5 us, the measured one 28.6 us (median over 5
/// runs): ...". Empty without measured steps.
std::string stamps_text(const StepTrace& trace, const std::vector<double>& measured_us);

/// For exchange_results().
template <class Archive>
void visit_fields(Archive& archive, TraceEvent& event) {
  archive(event.kind, event.name, event.stream, event.step, event.start_us, event.duration_us, event.bytes);
}
template <class Archive>
void visit_fields(Archive& archive, RankTrace& trace) {
  archive(trace.device, trace.host, trace.own_clock, trace.origin_us, trace.window_us, trace.barrier_us,
          trace.barrier_width_us, trace.events);
}

}  // namespace amdahl
