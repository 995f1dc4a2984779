// Writes the Chrome Trace Event Format, as specified by the Chromium project ("Trace Event Format").
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>

#include "spec/json_fields.h"
#include "spec/trace_json.h"

namespace amdahl {
namespace {

using nlohmann::json;

// Order of the threads of a process, from top to bottom; other threads follow sorted by name.
constexpr std::string_view kTraceStreams[] = {"step", "compute", "weights", "comm", "host"};

// Viewers treat process id 0 as no process, and a thread whose id equals its process id as the main thread; Perfetto
// also distinguishes threads of different processes only by their ids. Therefore every id is used once.
int process_id(int rank) { return rank + 1; }
int thread_id(int rank, int stream) { return 1000 * process_id(rank) + 1 + stream; }

std::string thread_title(const std::string& stream) {
  if (stream == "comm") return "communication stream";
  if (stream == "host") return "host";
  if (stream == "step") return "steps";
  return stream + " stream";
}

int64_t whole_ns(double us) { return std::llround(finite(us, "time of a traced event") * 1e3); }

// ts and dur in us with full ns resolution, so that rounding creates neither overlaps nor gaps between adjacent events.
std::string us_text(int64_t ns) { return fmt::format("{}.{:03}", ns / 1000, ns % 1000); }

class ChromeWriter {
 public:
  explicit ChromeWriter(const StepTrace& trace) : trace_(trace) {}

  ChromeTrace write(size_t max_bytes) {
    number_threads();
    ChromeTrace result;
    result.json = "{\"traceEvents\":[\n" + metadata();
    const std::string ending_when_cut = ending(cut_notice(trace_.events.size(), 0));
    size_t written = 0;
    for (const TraceEvent* event : in_time()) {
      const std::string line = ",\n" + complete(*event);
      if (result.json.size() + line.size() + ending_when_cut.size() > max_bytes) {
        result.notice = cut_notice(written, event->start_us);
        break;
      }
      result.json += line;
      ++written;
    }
    result.json += ending(result.notice);
    return result;
  }

 private:
  void number_threads() {
    for (const TraceEvent& event : trace_.events) threads_[event.stream] = 0;
    int next = static_cast<int>(std::size(kTraceStreams));
    for (auto& [stream, number] : threads_) {
      const auto* const known = std::find(std::begin(kTraceStreams), std::end(kTraceStreams), stream);
      number = known != std::end(kTraceStreams) ? static_cast<int>(known - std::begin(kTraceStreams)) : next++;
    }
  }

  std::string metadata() const {
    std::vector<json> lines;
    const auto add = [&](int rank, int stream, const char* name, const char* key, json value) {
      lines.push_back({{"ph", "M"},
                       {"pid", process_id(rank)},
                       {"tid", thread_id(rank, stream)},
                       {"name", name},
                       {"args", {{key, std::move(value)}}}});
    };
    for (const TracedRank& rank : trace_.ranks) {
      add(rank.rank, 0, "process_name", "name", fmt::format("rank {}, {}, {}", rank.rank, rank.device, rank.host));
      add(rank.rank, 0, "process_sort_index", "sort_index", rank.rank);
      for (const auto& [stream, number] : threads_) {
        if (!uses(rank.rank, stream)) continue;
        add(rank.rank, number, "thread_name", "name", thread_title(stream));
        add(rank.rank, number, "thread_sort_index", "sort_index", number);
      }
    }
    std::string text;
    for (const json& line : lines) text += (text.empty() ? "" : ",\n") + dump(line, -1);
    return text;
  }

  bool uses(int rank, const std::string& stream) const {
    return std::any_of(trace_.events.begin(), trace_.events.end(),
                       [&](const TraceEvent& event) { return event.rank == rank && event.stream == stream; });
  }

  std::vector<const TraceEvent*> in_time() const {
    std::vector<const TraceEvent*> events;
    for (const TraceEvent& event : trace_.events) events.push_back(&event);
    std::stable_sort(events.begin(), events.end(),
                     [](const TraceEvent* a, const TraceEvent* b) { return a->start_us < b->start_us; });
    return events;
  }

  std::string complete(const TraceEvent& event) const {
    const int64_t start = whole_ns(event.start_us), end = whole_ns(event.start_us + event.duration_us);
    const std::string bytes = event.bytes > 0 ? fmt::format(",\"bytes\":{}", event.bytes) : "";
    return fmt::format(R"({{"ph":"X","pid":{},"tid":{},"ts":{},"dur":{},"name":{},"cat":"{}","args":{{"step":{}{}}}}})",
                       process_id(event.rank), thread_id(event.rank, threads_.at(event.stream)), us_text(start),
                       us_text(end - start), dump(event.name, -1), trace_kind_name(event.kind), event.step, bytes);
  }

  std::string cut_notice(size_t written, double at_us) const {
    return fmt::format("the trace was cut at its largest size: {} of {} events are in it, those before {:.3f} us",
                       written, trace_.events.size(), at_us);
  }

  std::string ending(const std::string& notice) const {
    json other{{"what", fmt::format("amdahl: {}, {}, batch {}, {} device(s), launch {}, steps {} to {}", trace_.model,
                                    trace_.strategy, trace_.global_batch, trace_.devices, trace_.launch,
                                    trace_.first_step, trace_.end_step - 1)},
               {"how", trace_.how},
               {"version", trace_.provenance.tool_version},
               {"commit", trace_.provenance.commit},
               {"command_line", trace_.provenance.command_line},
               {"start_time", trace_.provenance.start_time},
               {"device_kind", trace_.provenance.device_kind}};
    for (const TracedRank& rank : trace_.ranks)
      other[fmt::format("clock of rank {}", rank.rank)] =
          fmt::format("{}; shifted as a whole by at most {:.1f} us", rank.clock, rank.clock_uncertainty_us);
    if (!notice.empty()) other["notice"] = notice;
    return "\n],\"displayTimeUnit\":\"ns\",\"otherData\":" + dump(other, -1) + "}\n";
  }

  const StepTrace& trace_;
  std::map<std::string, int> threads_;  // stream -> position from the top
};

}  // namespace

ChromeTrace chrome_trace(const StepTrace& trace, size_t max_bytes) { return ChromeWriter(trace).write(max_bytes); }

}  // namespace amdahl
