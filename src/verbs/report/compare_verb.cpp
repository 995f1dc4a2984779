// Compare: runs, or selections of runs, of amdahl or another tool, against the first.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "amdahl/comparison.h"
#include "amdahl/report.h"
#include "files/whole_file.h"
#include "report/common/process_spread.h"
#include "report/common/words.h"
#include "report/compare/compare.h"
#include "report/page/html_page.h"
#include "spec/json.h"
#include "spec/measurements.h"

namespace amdahl {
namespace {

// "DIR@global_batch=64,devices=2": a folder and the axes that a record must have.
struct Selection {
  std::string dir;
  std::map<std::string, std::string> axes;
};

Error no_selection(const std::string& text) {
  return {Cause::usage, fmt::format("'{}' does not select a cell", text), "DIR@global_batch=64,devices=2"};
}

Selection parse_selection(const std::string& text) {
  Selection selection;
  std::error_code error;  // a folder may have an @ in its name: the longest path that exists is the folder
  size_t at = text.size();
  while (at != std::string::npos && at > 0 && !std::filesystem::exists(text.substr(0, at), error))
    at = text.rfind('@', at - 1);
  selection.dir = at == std::string::npos || at == 0 ? text : text.substr(0, at);
  if (selection.dir == text) return selection;
  const std::string list = text.substr(at + 1);
  if (list.empty()) throw no_selection(text);
  for (size_t begin = 0; begin < list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    const std::string item = list.substr(begin, end - begin);
    const size_t equals = item.find('=');
    if (equals == std::string::npos) throw no_selection(text);
    std::string axis = item.substr(0, equals);
    if (axis == "batch") axis = "global_batch";
    selection.axes[axis] = item.substr(equals + 1);
    begin = end + 1;
  }
  return selection;
}

constexpr std::string_view kStudy = "study";
constexpr std::string_view kComparable[] = {kStudy, "bench", "collectives", "links", "onesided", "sensor"};

/// In a file with results of several tools, keeps the first tool unless the selection names another.
void keep_one_tool(const Selection& selection, Measurements& found) {
  const auto tool_of = [](const Record& record) {
    const auto axis = record.axes.find(kToolAxis);
    return axis == record.axes.end() ? std::string() : axis_text(axis->second);
  };
  if (found.records.empty() || tool_of(found.records.front()).empty()) return;
  found.tool = tool_of(found.records.front());
  const size_t all = found.records.size();
  std::string other;
  for (const Record& record : found.records)
    if (tool_of(record) != found.tool) other = tool_of(record);
  std::erase_if(found.records, [&](const Record& record) { return tool_of(record) != found.tool; });
  for (Record& record : found.records) record.axes.erase(kToolAxis);
  if (found.records.size() < all)
    found.notes.push_back(
        fmt::format("{0}: figures of {1}; {0}@tool={2} has those of {2}", selection.dir, found.tool, other));
}

/// The records that a selection matches.
Measurements select(const Selection& selection) {
  Measurements found = read_measurements(selection.dir);
  if (std::find(std::begin(kComparable), std::end(kComparable), found.kind) == std::end(kComparable))
    throw Error(
        Cause::usage,
        fmt::format("{} is a {} run: compare takes {}", selection.dir, found.kind, fmt::join(kComparable, ", ")),
        "two runs of one of these kinds");
  std::erase_if(found.records, [&](const Record& record) {
    return !std::all_of(selection.axes.begin(), selection.axes.end(), [&](const auto& wanted) {
      const auto axis = record.axes.find(wanted.first);
      return axis != record.axes.end() && axis_text(axis->second) == wanted.second;
    });
  });
  if (found.records.empty())
    throw Error(Cause::usage, fmt::format("{} has no record of that cell", selection.dir),
                "amdahl report lists the cells of a run");
  keep_one_tool(selection, found);
  return found;
}

RunComparison compare_studies(const Measurements& a, const Measurements& b, bool selected, CompareOptions options) {
  if (selected) {  // these are two cells: every named axis may differ
    options.differing_axes = {"global_batch", "devices", "strategy", "launch"};
    for (const PlanField& field : plan_fields())
      if (field.is_axis) options.differing_axes.emplace_back(field.name);
  }
  return compare_runs(a.records, b.records, options);
}

RunComparison compare_fabrics(const Measurements& a, const Measurements& b, CompareOptions options) {
  options.tool_a = a.tool;
  options.tool_b = b.tool;
  RunComparison comparison = compare_fabric(a.records, b.records, options);
  std::vector<std::string> notes{fmt::format("{} was measured by {}", options.name_a, a.tool),
                                 fmt::format("{} was measured by {}", options.name_b, b.tool)};
  comparison.notes.insert(comparison.notes.begin(), notes.begin(), notes.end());
  return comparison;
}

/// The remedy when one process is not enough.
constexpr const char* kSeveralProcessesRemedy =
    "`processes=5` on both sides; several runs of a side as "
    "A1+A2+A3; or `machine=FILE` of amdahl calibrate";

/// Without a judged cell, a regression limit would pass any measurement.
void require_judged(const RunComparison& comparison) {
  for (const CellComparison& cell : comparison.cells)
    if (cell.test.level != TestLevel::none) return;
  throw Error(
      Cause::usage,
      fmt::format(
          "`fail_on_regression_percent` judges nothing here: each cell of {} or {} was measured by one process, "
          "which says nothing about the next one",
          comparison.name_a, comparison.name_b),
      kSeveralProcessesRemedy);
}

/// The calibrated spreads of a machine file, which must be of the host that measured the records.
std::vector<ProcessSpread> spreads_of_host(const std::string& path, const std::vector<Record>& records) {
  const MachineSpec machine = machine_from_json(read_file(path, Cause::usage), path);
  for (const Record& record : records)
    if (record.provenance.host != machine.host)
      throw Error(Cause::usage,
                  fmt::format("'{}' describes the host '{}' and the baseline was measured on '{}'", path, machine.host,
                              record.provenance.host),
                  "the machine file of that host");
  if (machine.process_spreads.empty())
    throw Error(Cause::usage, fmt::format("'{}' has no spread of processes", path),
                "amdahl calibrate RUN `machine` " + path + ", where RUN was measured by five processes or more");
  return machine.process_spreads;
}

struct Side {
  std::string name;
  Selection selection;  // selection in its first run
  Measurements found;
};

// Splits "a+b+c" into runs; folder names may contain a +.
std::vector<std::string> split_runs(const std::string& text) {
  std::error_code error;
  std::vector<std::string> runs;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = text.size();
    while (end != std::string::npos && end > begin &&
           !std::filesystem::exists(parse_selection(text.substr(begin, end - begin)).dir, error))
      end = text.rfind('+', end - 1);
    if (end == std::string::npos || end <= begin) return {text};  // cannot be split: a single run
    runs.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return runs;
}

// The runs of one side are its processes: their numbers continue from run to run.
void add_processes(Measurements& all, Measurements more) {
  int64_t next = 0;
  for (Record& record : all.records) {
    record.axes[kProcessAxis] = process_of(record);
    next = std::max(next, process_of(record) + 1);
  }
  for (Record& record : more.records) record.axes[kProcessAxis] = next + process_of(record);
  all.records.insert(all.records.end(), more.records.begin(), more.records.end());
  for (const std::string& note : more.notes)
    if (std::find(all.notes.begin(), all.notes.end(), note) == all.notes.end()) all.notes.push_back(note);
}

Side read_side(const std::string& text) {
  Side side{text, {}, {}};
  for (const std::string& run : split_runs(text)) {
    const Selection selection = parse_selection(run);
    Measurements found = select(selection);
    if (side.found.kind.empty()) {
      side.selection = selection;
      side.found = std::move(found);
      continue;
    }
    if (found.kind != side.found.kind || found.foreign != side.found.foreign)
      throw Error(Cause::usage, fmt::format("{}: {} holds {} and others {}", text, run, found.kind, side.found.kind),
                  "runs of the same kind and tool on one side");
    add_processes(side.found, std::move(found));
  }
  return side;
}

RunComparison compare_sides(const Side& a, const Side& b, CompareOptions options) {
  if (a.found.kind != b.found.kind)
    throw Error(Cause::usage, fmt::format("{} holds {} and {} holds {}", a.name, a.found.kind, b.name, b.found.kind),
                "runs of the same kind");
  options.name_a = a.name;
  options.name_b = b.name;
  options.same_run = a.found.tool == b.found.tool && a.selection.dir == b.selection.dir &&
                     a.name.find('+') == std::string::npos && b.name.find('+') == std::string::npos;
  const bool foreign = a.found.foreign || b.found.foreign;
  for (const Side* side : {&a, &b})  // named axes may differ
    for (const auto& [axis, value] : side->selection.axes) options.differing_axes.push_back(axis);
  const bool selected = !a.selection.axes.empty() || !b.selection.axes.empty();
  RunComparison comparison = a.found.kind == kStudy && !foreign ? compare_studies(a.found, b.found, selected, options)
                                                                : compare_fabrics(a.found, b.found, options);
  for (const Side* side : {&b, &a})  // what the files lack, before what was compared
    comparison.notes.insert(comparison.notes.begin(), side->found.notes.begin(), side->found.notes.end());
  return comparison;
}

}  // namespace

CompareOutcome run_compare(const CompareConfig& config) {
  const std::optional<double> limit = config.fail_on_regression_percent;
  if (limit && !(*limit >= 0 && *limit <= 100))
    throw Error(Cause::usage, fmt::format("`fail_on_regression_percent` is {}", *limit),
                "a percentage from 0 to 100, like 3; 100 means that a step takes twice as long");
  if (config.runs.size() < 2)
    throw Error(Cause::usage,
                fmt::format("{} run{} to compare", config.runs.size(), config.runs.size() == 1 ? "" : "s"),
                "a baseline and at least one other");
  std::vector<Side> sides;
  for (const std::string& run : config.runs) sides.push_back(read_side(run));
  CompareOutcome outcome;
  CompareOptions options;
  options.allow_unlike = config.allow_unlike;
  options.pairs = config.pairs;
  if (!config.machine.empty()) options.spreads = spreads_of_host(config.machine, sides.front().found.records);
  for (size_t i = 1; i < sides.size(); ++i) {
    outcome.comparison.against.push_back(compare_sides(sides.front(), sides[i], options));
    if (limit) require_judged(outcome.comparison.against.back());
  }
  judge_together(outcome.comparison);
  if (!config.html.empty())
    save_text(config.html, html_page(compare_page(outcome.comparison, to_json(outcome)), html_assets()));
  outcome.regression = limit && regression(outcome.comparison, *limit);
  return outcome;
}

}  // namespace amdahl
