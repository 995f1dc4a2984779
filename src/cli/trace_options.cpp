#include "cli/trace_options.h"

#include <charconv>
#include <optional>

namespace amdahl::cli {
namespace {

constexpr const char* kInRunFolder = "trace.json.gz of the run folder";  // meaning of --trace without a file

std::optional<int64_t> whole_number(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || text.front() == '-' || error != std::errc{} || end != text.data() + text.size())
    return std::nullopt;
  return value;
}

void parse_steps(const std::string& text, TraceConfig& trace) {
  const size_t colon = text.find(':');
  std::optional<int64_t> first, end;
  if (colon != std::string::npos) {
    first = whole_number(std::string_view(text).substr(0, colon));
    end = whole_number(std::string_view(text).substr(colon + 1));
  }
  if (!first || !end)
    throw Error(Cause::usage, fmt::format("--trace steps={} is not a range of steps", printable(text)),
                "steps=FIRST:END, for example 10:13 for steps 10, 11 and 12");
  if (*first >= *end)
    throw Error(Cause::usage, fmt::format("--trace steps={} has no step", text),
                "steps=FIRST:END with END larger, for example 10:13 for steps 10, 11 and 12");
  trace.first = *first;
  trace.end = *end;
}

void parse_axis(const std::string& axis, const std::string& text, TraceConfig& trace) {
  constexpr int64_t kMostDevices = 1 << 16;
  const std::optional<int64_t> value = whole_number(text);
  if (!value || *value < 1 || (axis == "devices" && *value > kMostDevices))
    throw Error(Cause::usage, fmt::format("--trace {}={} gives no {}", axis, printable(text), axis),
                "for example batch=64,devices=2");
  if (axis == "batch")
    trace.global_batch = *value;
  else
    trace.devices = static_cast<int>(*value);
}

}  // namespace

void add_trace(CLI::App* app, std::string& text) {
  app->add_option(
         "--trace", text,
         "Trace steps of one more run of a cell, for Perfetto: FILE.json.gz or FILE.json (default: trace.json.gz in "
         "the run folder), steps=10:13 (without the end), batch=64,devices=2 (default: the last cell)")
      ->expected(0, 1)
      ->default_str(kInRunFolder);
  offer_files(app, {"--trace"});
}

TraceConfig parse_trace(const std::string& text) {
  TraceConfig trace;
  trace.wanted = true;
  if (text == kInRunFolder) return trace;
  for (const std::string& part : split_list(text)) {
    const size_t equals = std::min(part.find('='), part.size());
    const std::string key = part.substr(0, equals), value = part.substr(std::min(equals + 1, part.size()));
    if (key == "steps")
      parse_steps(value, trace);
    else if (key == "batch" || key == "devices")
      parse_axis(key, value, trace);
    else if (equals < part.size() && !part.ends_with(".json") && !part.ends_with(".gz"))
      require_one_of("--trace", key, {"steps", "batch", "devices"});
    else if (trace.file.empty())
      trace.file = part;
    else
      throw Error(Cause::usage, fmt::format("--trace: '{}' and '{}'", trace.file, part),
                  "FILE,steps=10:13,batch=64,devices=2");
  }
  return trace;
}

}  // namespace amdahl::cli
