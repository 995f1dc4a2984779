#include "verbs/training/trace_files.h"

#include <fmt/format.h>

#include <algorithm>

#include "files/gzip.h"
#include "files/output_place.h"
#include "files/whole_file.h"
#include "spec/trace_json.h"

namespace amdahl {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kUsualFirst = 10, kUsualEnd = 13;
constexpr int64_t kMostSteps = 1000;       // ranks exchange their events in one message
constexpr int64_t kReportedSteps = 8;      // steps kept in trace.json, for charts
constexpr size_t kMaxBytes = 100'000'000;  // size of a Chrome Trace before compression; viewers are slow beyond it

constexpr const char* kHow =
    "Steps of one more run with fresh weights after the timed runs of its cell: no sample of the study. They follow "
    "each other without the host waiting in between. Stamps around every piece take time of their own, so the pieces "
    "show order and proportion; how long a step takes is the study's step_time.";

bool is_compressed(const fs::path& path) { return path.extension() == ".gz"; }

fs::path trace_file(const StudyConfig& config) {
  return config.trace.file.empty() ? fs::path(config.output_dir) / "trace.json.gz" : fs::path(config.trace.file);
}

void check_file_name(const fs::path& path) {
  if (path.extension() == ".json" || (is_compressed(path) && path.stem().extension() == ".json")) return;
  if (output_place(path).is_stream()) return;
  throw Error(Cause::usage, fmt::format("`trace` {}: unknown kind of file", printable(path.string())),
              "a name that ends in .json.gz, or .json for one that is not compressed");
}

std::string cell_text(const StudyCellSpec& cell) {
  return fmt::format("batch={},devices={}", cell.global_batch, cell.devices);
}

StudyCellSpec choose_cell(const TraceConfig& trace, const StudySettings& settings) {
  const StudyCellSpec* chosen = nullptr;
  std::vector<std::string> cells;
  for (const auto& group : settings.groups) {
    for (const StudyCellSpec& cell : group) {
      if (cell.extra) continue;
      cells.push_back(cell_text(cell));
      const bool batch_fits = trace.global_batch == 0 || trace.global_batch == cell.global_batch;
      const bool devices_fit = trace.devices == 0 || trace.devices == cell.devices;
      if (batch_fits && devices_fit) chosen = &cell;
    }
  }
  if (chosen) return *chosen;
  throw Error(Cause::usage,
              fmt::format("`trace_cell`: the study has no cell with {}{}{}",
                          trace.global_batch > 0 ? fmt::format("batch {}", trace.global_batch) : "",
                          trace.global_batch > 0 && trace.devices > 0 ? " and " : "",
                          trace.devices > 0 ? fmt::format("{} device(s)", trace.devices) : ""),
              fmt::format("one of {}", fmt::join(cells, " ")));
}

}  // namespace

std::optional<TraceRequest> plan_trace(const StudyConfig& config, const StudySettings& settings) {
  const TraceConfig& trace = config.trace;
  if (!trace.wanted) return std::nullopt;
  if (!trace.file.empty()) check_file_name(trace.file);
  const int64_t run_steps = static_cast<int64_t>(config.warmup) + config.steps;
  TraceRequest request;
  request.cell = choose_cell(trace, settings);
  request.first = trace.first;
  request.end = trace.end;
  if (trace.end == 0) {
    request.end = std::min(kUsualEnd, run_steps);
    request.first = std::max<int64_t>(0, request.end - (kUsualEnd - kUsualFirst));
  }
  if (request.first < 0 || request.first >= request.end)
    throw Error(Cause::usage, fmt::format("`trace_steps` {}:{} has no step", request.first, request.end),
                "FIRST:END with END larger, for example 10:13 for steps 10, 11 and 12");
  if (request.end > run_steps)
    throw Error(Cause::usage,
                fmt::format("`trace_steps` {}:{}: a run has {} steps (`warmup` {} and `steps` {}), numbered from 0",
                            request.first, request.end, run_steps, config.warmup, config.steps),
                fmt::format("an END of at most {}, or more `steps`", run_steps));
  if (request.end - request.first > kMostSteps)
    throw Error(
        Cause::usage,
        fmt::format("`trace_steps` {}:{} are {} steps", request.first, request.end, request.end - request.first),
        fmt::format("at most {}", kMostSteps));
  return request;
}

std::string trace_note(const TraceRequest& request) {
  return fmt::format("steps {} to {} of {} n={} b={} are traced in one more run, which is no sample", request.first,
                     request.end - 1, request.cell.strategy, request.cell.devices, request.cell.global_batch);
}

void require_trace_place(const StudyConfig& config) {
  const fs::path file = trace_file(config);
  const fs::path folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  std::error_code error;
  const bool made_later = fs::weakly_canonical(folder, error) == fs::weakly_canonical(config.output_dir, error);
  if (made_later && !fs::is_directory(file, error)) return;
  if (const Availability place = writable(output_place(file)); !place.ok)
    throw Error(Cause::usage, fmt::format("`trace` {}: {}", printable(file.string()), place.reason), place.remedy);
}

void write_trace(StepTrace trace, const StudyConfig& config, Observer& observer) {
  const std::string stamps = trace.how;  // effect of the timestamps on this step
  trace.how = fmt::format("{}{}{}", kHow, stamps.empty() ? "" : " ", stamps);
  const fs::path file = trace_file(config);
  const ChromeTrace chrome = chrome_trace(trace, kMaxBytes);
  write_atomic(file, is_compressed(file) ? gzip(chrome.json) : chrome.json);
  const size_t num_events = trace.events.size();
  const int64_t last = std::min(trace.end_step, trace.first_step + kReportedSteps);
  std::erase_if(trace.events, [&](const TraceEvent& event) { return event.step >= last; });
  trace.end_step = last;
  write_atomic(fs::path(config.output_dir) / kTraceFile, trace_to_json(trace));
  if (!chrome.notice.empty()) observer.warning(fmt::format("{}: {}", file.string(), chrome.notice));
  observer.note(
      fmt::format("trace: {} ({} events){}{}", file.string(), num_events, stamps.empty() ? "" : ". ", stamps));
}

}  // namespace amdahl
