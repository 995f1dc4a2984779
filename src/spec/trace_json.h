// A StepTrace as files: trace.json of a run folder, which reports read, and Chrome Trace for viewers.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "amdahl/trace.h"

namespace amdahl {

inline constexpr const char* kTraceFile = "trace.json";

/// "compute", "communication": name of a kind in both files.
std::string_view trace_kind_name(TraceKind kind);

/// docs/schema/trace.schema.json; times are rounded to ns. Reading throws Error{store_corrupt} or
/// Error{version_refused}.
std::string trace_to_json(const StepTrace& trace);
StepTrace trace_from_json(std::string_view text, std::string_view origin);

struct ChromeTrace {
  std::string json;
  std::string notice;  // what was left out; empty: nothing
};

/// The "JSON object format" that Perfetto and chrome://tracing open: a process per rank, a thread per stream, complete
/// events in us. The events that begin last are left out where the text would exceed `max_bytes`.
ChromeTrace chrome_trace(const StepTrace& trace, size_t max_bytes);

}  // namespace amdahl
