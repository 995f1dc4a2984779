// Serialises a StepTrace: trace.json of a run folder, which reports read, and Chrome Trace for viewers.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "amdahl/record.h"

namespace amdahl {

inline constexpr const char* kTraceFile = "trace.json";

/// "compute", "communication": name of the kind in both formats.
std::string_view trace_kind_name(TraceKind kind);

/// Format: docs/schema/trace.schema.json; times are rounded to ns. Reading throws Error{store_corrupt} or
/// Error{version_refused}.
std::string trace_to_json(const StepTrace& trace);
StepTrace trace_from_json(std::string_view text, std::string_view origin);

struct ChromeTrace {
  std::string json;
  std::string notice;  // what was left out; empty if complete
};

/// The "JSON object format" of Perfetto and chrome://tracing: one process per rank, one thread per stream, complete
/// events in us. When the text would exceed `max_bytes`, the events with the latest start are left out.
ChromeTrace chrome_trace(const StepTrace& trace, size_t max_bytes);

}  // namespace amdahl
