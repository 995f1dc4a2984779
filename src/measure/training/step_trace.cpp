#include "measure/training/step_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

#include "base/number_text.h"
#include "stats/summary.h"

namespace amdahl {
namespace {

// Collects the spans of one step; a span that this step never stamped is left out.
class EventList {
 public:
  EventList(Device& device, const Event& origin, int64_t step) : device_(device), origin_(origin), step_(step) {}

  void add(TraceKind kind, std::string name, std::string stream, const Span& span, int64_t bytes = 0) {
    if (!span.start || !span.end) return;
    TraceEvent event{kind, std::move(name), std::move(stream), 0, step_};
    event.start_us = device_.elapsed_us(origin_, *span.start);
    event.duration_us = std::max(0.0, device_.elapsed_us(*span.start, *span.end));
    event.bytes = bytes;
    events_.push_back(std::move(event));
  }
  std::vector<TraceEvent> take() { return std::move(events_); }

 private:
  Device& device_;
  const Event& origin_;
  int64_t step_;
  std::vector<TraceEvent> events_;
};

std::string clock_in_text(const RankTrace& rank, bool same_host) {
  std::string text =
      rank.own_clock
          ? fmt::format("the device's clock, put on the host's by one idle stamp read within {:.1f} us", rank.window_us)
          : std::string("the host's steady clock, which its CPU devices share");
  if (!same_host)
    text += fmt::format("; another host than rank 0: aligned at a barrier of {:.1f} us", rank.barrier_width_us);
  return text;
}

}  // namespace

std::vector<TraceEvent> stamped_events(Device& device, const StepStamps& stamps, const Event& origin, int64_t step) {
  EventList list(device, origin, step);
  list.add(TraceKind::step, fmt::format("step {}", step), "step", stamps.step);
  list.add(TraceKind::input, "input", "compute", stamps.input);
  for (const StampedPiece& piece : stamps.pieces) list.add(TraceKind::compute, piece.name, piece.stream, piece.span);
  const char* comm = stamps.communicates_on_compute ? "compute" : "comm";
  for (size_t i = 0; i < stamps.collectives.size(); ++i)
    list.add(TraceKind::communication, fmt::format("bucket {}", i), comm, stamps.collectives[i],
             i < stamps.bytes.size() ? stamps.bytes[i] : 0);
  if (!stamps.communicates_on_compute)
    for (size_t i = 0; i < stamps.stalls.size(); ++i)
      list.add(TraceKind::waiting, fmt::format("wait for bucket {}", i), "compute", stamps.stalls[i]);
  for (size_t i = 0; i < stamps.updates.size(); ++i)
    list.add(TraceKind::optimizer, stamps.updates.size() > 1 ? fmt::format("optimizer {}", i) : "optimizer", "compute",
             stamps.updates[i]);
  return list.take();
}

StepTrace merge_traces(const std::vector<RankTrace>& ranks) {
  StepTrace trace;
  const RankTrace& root = ranks.front();
  double zero = std::numeric_limits<double>::infinity();
  for (size_t r = 0; r < ranks.size(); ++r) {
    const RankTrace& rank = ranks[r];
    const bool same_host = rank.host == root.host;
    const double shift = same_host ? rank.origin_us - root.origin_us
                                   : (rank.origin_us - rank.barrier_us) - (root.origin_us - root.barrier_us);
    const double uncertainty = rank.window_us / 2 + (same_host ? 0 : rank.barrier_width_us + root.barrier_width_us);
    trace.ranks.push_back({static_cast<int>(r), rank.device, rank.host, clock_in_text(rank, same_host), uncertainty});
    for (TraceEvent event : rank.events) {
      event.rank = static_cast<int>(r);
      event.start_us += shift;
      zero = std::min(zero, event.start_us);
      trace.events.push_back(std::move(event));
    }
  }
  for (TraceEvent& event : trace.events) event.start_us -= zero;
  std::stable_sort(trace.events.begin(), trace.events.end(), [](const TraceEvent& a, const TraceEvent& b) {
    return std::tie(a.rank, a.start_us) < std::tie(b.rank, b.start_us);
  });
  return trace;
}

double traced_step_us(const StepTrace& trace) {
  std::map<std::pair<int, int64_t>, const TraceEvent*> steps;
  for (const TraceEvent& event : trace.events)
    if (event.kind == TraceKind::step) steps[{event.rank, event.step}] = &event;
  std::vector<double> apart, lengths;
  for (const auto& [key, step] : steps) {
    lengths.push_back(step->duration_us);
    const auto next = steps.find({key.first, key.second + 1});
    if (next != steps.end()) apart.push_back(next->second->start_us - step->start_us);
  }
  if (lengths.empty()) return 0;
  return median_of(apart.empty() ? lengths : apart);
}

std::string stamps_text(const StepTrace& trace, const std::vector<double>& measured_us) {
  const double traced = traced_step_us(trace);
  if (measured_us.empty() || !(traced > 0)) return {};
  const double measured = median_of(measured_us);
  return fmt::format(
      "A traced step takes {} us, the measured one {} us (median over {} run{}): with its stamps it takes {:.2f} times "
      "as long.",
      format_number(traced), format_number(measured), measured_us.size(), measured_us.size() == 1 ? "" : "s",
      traced / measured);
}

}  // namespace amdahl
