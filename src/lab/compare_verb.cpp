// Compare: runs, or selections of runs, of ours or of another tool, against the first.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "amdahl/amdahl.h"
#include "report/compare.h"
#include "report/compare_page.h"
#include "report/comparison_text.h"
#include "report/fabric_compare.h"
#include "report/html_page.h"
#include "report/words.h"
#include "spec/json.h"
#include "spec/measurements.h"

namespace amdahl {
namespace {

// "DIR@global_batch=64,devices=2" to the folder and the axes that a record must have.
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
constexpr std::string_view kComparable[] = {kStudy, "collectives", "links", "sensor"};

/// The records that a selection means.
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
  return found;
}

RunComparison compare_studies(const Measurements& a, const Measurements& b, bool selected, CompareOptions options) {
  if (selected)  // two cells: whatever was named may differ
    options.differing_axes = {"global_batch", "devices", "strategy", "launch", "overlap", "bucket_bytes", "accumulate"};
  return compare_runs(a.records, b.records, options);
}

RunComparison compare_fabrics(const Measurements& a, const Measurements& b, CompareOptions options) {
  options.tool_a = a.tool;
  options.tool_b = b.tool;
  RunComparison comparison = compare_fabric(a.records, b.records, options);
  std::vector<std::string> notes{fmt::format("{} was measured by {}", options.name_a, a.tool),
                                 fmt::format("{} was measured by {}", options.name_b, b.tool)};
  for (const Measurements* side : {&a, &b}) notes.insert(notes.end(), side->notes.begin(), side->notes.end());
  comparison.notes.insert(comparison.notes.begin(), notes.begin(), notes.end());
  return comparison;
}

/// A limit that nothing is judged by would pass whatever was measured.
void require_judged(const RunComparison& comparison) {
  for (const CellComparison& cell : comparison.cells)
    if (std::min(cell.test.n_first, cell.test.n_second) > 1) return;
  throw Error(
      Cause::usage,
      fmt::format("--fail-on-regression judges nothing here: no cell of {} and {} has two samples on both sides",
                  comparison.name_a, comparison.name_b),
      "leave the option out and read the ratios, or compare studies of several runs");
}

struct Side {
  std::string name;
  Selection selection;
  Measurements found;
};

Side read_side(const std::string& text) {
  Side side{text, parse_selection(text), {}};
  side.found = select(side.selection);
  return side;
}

RunComparison compare_sides(const Side& a, const Side& b, CompareOptions options) {
  if (a.found.kind != b.found.kind)
    throw Error(Cause::usage, fmt::format("{} holds {} and {} holds {}", a.name, a.found.kind, b.name, b.found.kind),
                "runs of the same kind");
  options.name_a = a.name;
  options.name_b = b.name;
  const bool foreign = a.found.foreign || b.found.foreign;
  if (a.found.kind == kStudy && !foreign)
    return compare_studies(a.found, b.found, !a.selection.axes.empty() || !b.selection.axes.empty(), options);
  for (const Side* side : {&a, &b})  // what was named may differ
    for (const auto& [axis, value] : side->selection.axes) options.differing_axes.push_back(axis);
  return compare_fabrics(a.found, b.found, options);
}

}  // namespace

CompareOutcome run_compare(const CompareConfig& config) {
  const std::optional<double> limit = config.fail_on_regression_percent;
  if (limit && !(*limit >= 0 && *limit <= 100))
    throw Error(Cause::usage, fmt::format("--fail-on-regression is {}", *limit),
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
  for (size_t i = 1; i < sides.size(); ++i) {
    outcome.comparison.against.push_back(compare_sides(sides.front(), sides[i], options));
    if (limit) require_judged(outcome.comparison.against.back());
  }
  judge_together(outcome.comparison);
  outcome.text = comparison_text(outcome.comparison);
  outcome.markdown = comparison_markdown(outcome.comparison);
  outcome.json = comparison_to_json(outcome.comparison, comparison_verdict(outcome.comparison));
  if (!config.html.empty())
    save_text(config.html, html_page(compare_page(outcome.comparison, outcome.json), html_assets()));
  outcome.regression = limit && regression(outcome.comparison, *limit);
  return outcome;
}

}  // namespace amdahl
