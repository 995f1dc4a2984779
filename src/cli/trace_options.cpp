#include "cli/trace_options.h"

#include <limits>

namespace amdahl::cli {
namespace {

constexpr const char* kInRunFolder = "trace.json.gz of the run folder";  // meaning of --trace without a file

void parse_steps(const std::string& text, TraceConfig& trace) {
  const std::vector<int64_t> steps = parse_like("1:3", text, "--trace steps=", 0);
  trace.first = steps[0];
  trace.end = steps[1];
  if (trace.first >= trace.end)
    throw Error(Cause::usage, fmt::format("--trace steps={} has no step", text),
                fmt::format("--trace steps={}:{}", trace.first, trace.first + 1));
}

void parse_axis(const std::string& axis, const std::string& text, TraceConfig& trace) {
  const std::string what = fmt::format("--trace {}=", axis);
  const int64_t value = parse_whole(text, Unit::count, what);
  if (value < 1 || (axis == "devices" && value > std::numeric_limits<int>::max()))
    throw Error(Cause::usage, fmt::format("{}{}: no cell has as many", what, value), what + "2");
  if (axis == "batch")
    trace.global_batch = value;
  else
    trace.devices = static_cast<int>(value);
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
                  "--trace FILE,steps=10:13,batch=64,devices=2");
  }
  return trace;
}

}  // namespace amdahl::cli
