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
    throw Error(Cause::usage, fmt::format("--trace-steps '{}' is not a range of steps", printable(text)),
                "FIRST:END, for example 10:13 for steps 10, 11 and 12");
  if (*first >= *end)
    throw Error(Cause::usage, fmt::format("--trace-steps {} has no step", text),
                "FIRST:END with END larger, for example 10:13 for steps 10, 11 and 12");
  trace.first = *first;
  trace.end = *end;
}

void parse_cell(const std::string& text, TraceConfig& trace) {
  constexpr int64_t kMostDevices = 1 << 16;
  for (const std::string& item : split_list(text)) {
    const size_t equals = std::min(item.find('='), item.size());
    const std::string axis = item.substr(0, equals);
    require_one_of("--trace-cell", axis, {"batch", "devices"});
    const std::optional<int64_t> value =
        equals < item.size() ? whole_number(std::string_view(item).substr(equals + 1)) : std::nullopt;
    if (!value || *value < 1 || (axis == "devices" && *value > kMostDevices))
      throw Error(Cause::usage, fmt::format("--trace-cell '{}' gives no {}", printable(text), axis),
                  "for example batch=64,devices=2");
    if (axis == "batch")
      trace.global_batch = *value;
    else
      trace.devices = static_cast<int>(*value);
  }
}

}  // namespace

void add_trace(CLI::App* app, TraceTexts& texts) {
  app->add_option("--trace", texts.file,
                  "Trace a few steps of one more run of a cell, for Perfetto: FILE.json.gz or FILE.json (default: "
                  "trace.json.gz in the run folder)")
      ->expected(0, 1)
      ->default_str(kInRunFolder);
  offer_files(app, {"--trace"});
  app->add_option("--trace-steps", texts.steps,
                  "Steps FIRST:END to trace, without END (default: 10:13, or the last three of a shorter run)");
  app->add_option("--trace-cell", texts.cell, "Cell to trace, for example batch=64,devices=2 (default: the last one)");
}

TraceConfig parse_trace(const CLI::App& app, const TraceTexts& texts) {
  TraceConfig trace;
  trace.wanted = app.count("--trace") > 0;
  for (const char* option : {"--trace-steps", "--trace-cell"})
    if (!trace.wanted && app.count(option) > 0)
      throw Error(Cause::usage, fmt::format("{} without --trace", option), "--trace, or drop the option");
  if (texts.file != kInRunFolder) trace.file = texts.file;
  if (!texts.steps.empty()) parse_steps(texts.steps, trace);
  if (!texts.cell.empty()) parse_cell(texts.cell, trace);
  return trace;
}

}  // namespace amdahl::cli
