#include "spec/trace_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "amdahl/error.h"
#include "spec/json_fields.h"

namespace amdahl {
namespace {

using nlohmann::json;

// Names in the order of TraceKind.
constexpr std::string_view kKindNames[] = {"step", "compute", "optimizer", "input", "communication", "waiting", "host"};

// Timestamps have ns resolution; shorter numbers keep the file readable.
double whole_ns(double us, std::string_view what) { return std::round(finite(us, what) * 1e3) / 1e3; }

json event_json(const TraceEvent& event) {
  json object{{"kind", trace_kind_name(event.kind)},
              {"name", event.name},
              {"stream", event.stream},
              {"rank", event.rank},
              {"step", event.step},
              {"start_us", whole_ns(event.start_us, "start of an event")},
              {"duration_us", whole_ns(event.duration_us, "duration of an event")}};
  if (event.bytes > 0) object["bytes"] = event.bytes;
  return object;
}

TraceEvent read_event(const Fields& fields, size_t num_ranks) {
  TraceEvent event;
  const std::string kind = fields.text("kind");
  const auto* const found = std::find(std::begin(kKindNames), std::end(kKindNames), kind);
  if (found == std::end(kKindNames)) fields.fail("kind", fmt::format("is \"{}\"", printable(kind, 40)));
  event.kind = static_cast<TraceKind>(found - std::begin(kKindNames));
  event.name = fields.text("name");
  event.stream = fields.text("stream");
  const int64_t rank = fields.integer("rank");
  if (rank < 0 || rank >= static_cast<int64_t>(num_ranks))
    fields.fail("rank", fmt::format("is {}, of {} ranks", rank, num_ranks));
  event.rank = static_cast<int>(rank);
  event.step = fields.integer("step");
  event.start_us = fields.number("start_us");
  event.duration_us = fields.number("duration_us");
  if (event.duration_us < 0) fields.fail("duration_us", fmt::format("is {}", event.duration_us));
  event.bytes = fields.integer_or("bytes", 0);
  return event;
}

TracedRank read_rank(const Fields& fields, size_t expected) {
  TracedRank rank;
  if (fields.integer("rank") != static_cast<int64_t>(expected))
    fields.fail("rank", fmt::format("is {}, the ranks are not in order", fields.integer("rank")));
  rank.rank = static_cast<int>(expected);
  rank.device = fields.text("device");
  rank.host = fields.text("host");
  rank.clock = fields.text("clock");
  rank.clock_uncertainty_us = fields.number("clock_uncertainty_us");
  return rank;
}

}  // namespace

std::string_view trace_kind_name(TraceKind kind) { return kKindNames[static_cast<size_t>(kind)]; }

std::string trace_to_json(const StepTrace& trace) {
  json ranks = json::array(), events = json::array();
  for (const TracedRank& rank : trace.ranks)
    ranks.push_back({{"rank", rank.rank},
                     {"device", rank.device},
                     {"host", rank.host},
                     {"clock", rank.clock},
                     {"clock_uncertainty_us", whole_ns(rank.clock_uncertainty_us, "uncertainty of a clock")}});
  for (const TraceEvent& event : trace.events) events.push_back(event_json(event));
  return dump({{"version", kSchemaVersion},
               {"kind", "step-trace"},
               {"model", trace.model},
               {"strategy", trace.strategy},
               {"launch", trace.launch},
               {"global_batch", trace.global_batch},
               {"devices", trace.devices},
               {"first_step", trace.first_step},
               {"end_step", trace.end_step},
               {"how", trace.how},
               {"ranks", ranks},
               {"events", events},
               {"provenance", provenance_json(trace.provenance)}},
              1) +
         "\n";
}

StepTrace trace_from_json(std::string_view text, std::string_view origin) {
  const json document = parse_document(text, origin, Cause::store_corrupt);
  const Fields fields(document, std::string(origin), "", Cause::store_corrupt);
  fields.require_version();
  if (fields.text("kind") != "step-trace") fields.fail("kind", "is not \"step-trace\"");
  StepTrace trace;
  trace.model = fields.text("model");
  trace.strategy = fields.text("strategy");
  trace.launch = fields.text("launch");
  trace.global_batch = fields.integer("global_batch");
  trace.devices = static_cast<int>(fields.integer("devices"));
  trace.first_step = fields.integer("first_step");
  trace.end_step = fields.integer("end_step");
  trace.how = fields.text("how");
  const json& ranks = fields.array("ranks");
  for (size_t i = 0; i < ranks.size(); ++i) trace.ranks.push_back(read_rank(fields.element(ranks, "ranks", i), i));
  const json& events = fields.array("events");
  for (size_t i = 0; i < events.size(); ++i)
    trace.events.push_back(read_event(fields.element(events, "events", i), trace.ranks.size()));
  trace.provenance = read_provenance(fields.object("provenance"));
  return trace;
}

}  // namespace amdahl
