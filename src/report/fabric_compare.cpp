#include "report/fabric_compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "amdahl/units.h"
#include "report/text.h"
#include "report/words.h"
#include "stats/percentile.h"

namespace amdahl {
namespace {

using AxisSet = std::set<std::string>;

struct SeriesRow {
  std::string_view kind, series;
  // Ours alone, of samples that are each a measurement of its own: all of them count, and all axes tell cells apart.
  bool exact = false;
};

constexpr SeriesRow kSeries[] = {
    {"collective", "time"}, {"link", "bandwidth"}, {"link", "latency"}, {"sensor", "time", true}};

// In this order in a table, before all others. "count" says what "bytes" and "dtype" say.
constexpr const char* kColumns[] = {"test", "source", "destination", "collective", "dtype",
                                    "op",   "root",   "devices",     "bytes",      "in_place"};
constexpr const char* kHidden = "count";
constexpr const char* kSeen = "nccl_chose";  // what was seen, not what was asked for: tells no cells apart
constexpr size_t kMostUnmatched = 5;         // cells without a counterpart that the text lists; the JSON has all

/// Records of one kind that have the series, with its median alone unless the row is exact.
std::vector<Record> with_series(const std::vector<Record>& records, const SeriesRow& row) {
  std::vector<Record> kept;
  for (const Record& record : records) {
    if (record.kind != row.kind || record.status.kind != Status::Kind::ok) continue;
    for (const Series& series : record.series) {
      if (series.name != row.series || series.samples.empty()) continue;
      kept.push_back(record);
      kept.back().axes.erase(kSeen);
      if (row.kind == "sensor") kept.back().axes.erase("device");  // where a task was placed, by costs measured then
      kept.back().series = {series};
      if (!row.exact) kept.back().series.front().samples = {percentile(series.samples, 50)};
    }
  }
  return kept;
}

AxisSet axes_of(const std::vector<Record>& records) {
  AxisSet names;
  for (const Record& record : records)
    for (const auto& [name, value] : record.axes) names.insert(name);
  return names;
}

AxisSet minus(const AxisSet& a, const AxisSet& b) {
  AxisSet rest;
  std::set_difference(a.begin(), a.end(), b.begin(), b.end(), std::inserter(rest, rest.end()));
  return rest;
}

void add_note(RunComparison& result, const std::string& note) {
  if (std::find(result.notes.begin(), result.notes.end(), note) == result.notes.end()) result.notes.push_back(note);
}

void join(RunComparison& result, const RunComparison& part) {
  if (result.series.empty()) result.series = part.series, result.unit = part.unit;
  result.device_kind = part.device_kind;
  result.cells.insert(result.cells.end(), part.cells.begin(), part.cells.end());
  result.only_a.insert(result.only_a.end(), part.only_a.begin(), part.only_a.end());
  result.only_b.insert(result.only_b.end(), part.only_b.begin(), part.only_b.end());
  for (const std::string& note : part.notes) add_note(result, note);
}

/// Axes that one side alone has tell its cells from nothing on the other.
CompareOptions shared_axes_only(CompareOptions options, const std::vector<Record>& a, const std::vector<Record>& b,
                                const SeriesRow& row, RunComparison& result) {
  const AxisSet left = axes_of(a), right = axes_of(b);
  options.series = row.series;
  options.may_be_empty = true;
  if (row.exact) return options;
  for (const auto& [extra, name] :
       {std::pair{minus(left, right), &options.name_a}, {minus(right, left), &options.name_b}}) {
    if (extra.empty()) continue;
    options.differing_axes.insert(options.differing_axes.end(), extra.begin(), extra.end());
    add_note(result, fmt::format("only {} knows {}: not compared", *name, fmt::join(extra, ", ")));
  }
  return options;
}

void note_without_result(const std::vector<Record>& records, const std::string& name, size_t used,
                         RunComparison& result) {
  if (const size_t rest = records.size() - std::min(used, records.size()); rest > 0)
    add_note(result,
             fmt::format("{}: {} record{} without a result that is compared", name, rest, rest == 1 ? "" : "s"));
}

/// Cells of one table.
std::vector<const CellComparison*> cells_of(const RunComparison& comparison, const SeriesRow& row) {
  std::vector<const CellComparison*> cells;
  for (const CellComparison& cell : comparison.cells)
    if (cell.kind == row.kind && cell.series == row.series) cells.push_back(&cell);
  return cells;
}

std::string axis_of(const CellComparison& cell, const std::string& name) {
  const auto found = cell.axes.find(name);
  return found == cell.axes.end() ? "-" : printable(axis_text(found->second), 60);
}

/// Axes of these cells, those that vary apart from those that do not.
std::pair<std::vector<std::string>, std::vector<std::string>> columns_of(
    const std::vector<const CellComparison*>& cells) {
  AxisSet names;
  for (const CellComparison* cell : cells)
    for (const auto& [name, value] : cell->axes)
      if (name != kHidden) names.insert(name);
  std::vector<std::string> ordered;
  for (const char* name : kColumns)
    if (names.erase(name) > 0) ordered.emplace_back(name);
  ordered.insert(ordered.end(), names.begin(), names.end());
  std::vector<std::string> varying, fixed;
  for (const std::string& name : ordered) {
    const std::string first = axis_of(*cells.front(), name);
    const bool same = std::all_of(cells.begin(), cells.end(), [&](auto* c) { return axis_of(*c, name) == first; });
    (same ? fixed : varying).push_back(name);
  }
  return {varying, fixed};
}

/// By the first columns first.
void sort_cells(std::vector<const CellComparison*>& cells, const std::vector<std::string>& columns) {
  std::stable_sort(cells.begin(), cells.end(), [&](const CellComparison* a, const CellComparison* b) {
    for (const std::string& name : columns) {
      const auto left = a->axes.find(name), right = b->axes.find(name);
      const bool has_left = left != a->axes.end(), has_right = right != b->axes.end();
      if (has_left != has_right) return has_right;
      if (has_left && left->second != right->second) return left->second < right->second;
    }
    return false;
  });
}

/// Four digits where there are decimals: differences of a percent are what is looked for.
std::string value_text(double value) {
  return value < 10 ? fmt::format("{:.3f}", value) : fmt::format("{:.2f}", value);
}

std::string table_text(std::vector<const CellComparison*> cells) {
  const auto [varying, fixed] = columns_of(cells);
  sort_cells(cells, varying);
  const CellComparison& any = *cells.front();
  std::string title = fmt::format("{} in {}", any.series, any.unit);
  for (const std::string& name : fixed) title += fmt::format(", {} {}", printable(name, 40), axis_of(any, name));
  std::vector<std::vector<std::string>> rows(1, varying);
  for (const char* name : {"A", "B", "A over B", "n", "verdict"}) rows[0].emplace_back(name);
  std::vector<double> ratios;
  for (const CellComparison* cell : cells) {
    std::vector<std::string> row;
    for (const std::string& name : varying) row.push_back(axis_of(*cell, name));
    ratios.push_back(cell->test.ratio);
    row.push_back(value_text(cell->a.mean));
    row.push_back(value_text(cell->b.mean));
    row.push_back(fmt::format("{:.3f}x", cell->test.ratio));
    row.push_back(fmt::format("{}+{}", cell->test.n_first, cell->test.n_second));
    row.emplace_back(to_string(cell->test.verdict));
    rows.push_back(std::move(row));
  }
  const auto [low, high] = std::minmax_element(ratios.begin(), ratios.end());
  return fmt::format("\n{}\n{}speed of A over B: median {:.3f}x, {:.3f}x to {:.3f}x over {} cell{}\n", title,
                     aligned_table(rows), percentile(ratios, 50), *low, *high, ratios.size(),
                     ratios.size() == 1 ? "" : "s");
}

std::string unmatched_text(const std::vector<std::string>& cells, const std::string& name) {
  std::string text;
  for (size_t i = 0; i < std::min(cells.size(), kMostUnmatched); ++i)
    text += fmt::format("only in {}: {}\n", name, printable(cells[i], 200));
  if (cells.size() > kMostUnmatched)
    text += fmt::format("only in {}: {} more cells, --json lists them\n", name, cells.size() - kMostUnmatched);
  return text;
}

}  // namespace

RunComparison compare_fabric(const std::vector<Record>& a, const std::vector<Record>& b,
                             const CompareOptions& options) {
  RunComparison result;
  result.name_a = options.name_a;
  result.name_b = options.name_b;
  size_t used_a = 0, used_b = 0;
  for (const SeriesRow& row : kSeries) {
    const std::vector<Record> left = with_series(a, row), right = with_series(b, row);
    used_a += left.size(), used_b += right.size();
    if (left.empty() || right.empty()) {
      for (const auto& [records, name] : {std::pair{&left, &options.name_a}, {&right, &options.name_b}})
        if (!records->empty()) add_note(result, fmt::format("only {} has {} of a {}", *name, row.series, row.kind));
      continue;
    }
    join(result, compare_runs(left, right, shared_axes_only(options, left, right, row, result)));
  }
  if (result.cells.empty())
    throw Error(Cause::usage,
                fmt::format("{} and {} have no cell with a result in common", options.name_a, options.name_b),
                "runs of the same collectives, tests or workloads, sizes, types and numbers of devices");
  note_without_result(a, options.name_a, used_a, result);
  note_without_result(b, options.name_b, used_b, result);
  return result;
}

std::string fabric_compare_text(const RunComparison& comparison) {
  std::string text;
  if (comparison.device_kind == "cpu-virtual") text += "Measured on CPU virtual devices, not GPUs.\n";
  text += fmt::format("A is {}, B is {}; above 1x, A is faster.\n", comparison.name_a, comparison.name_b);
  bool single = true;
  for (const SeriesRow& row : kSeries)
    if (const auto cells = cells_of(comparison, row); !cells.empty()) {
      text += table_text(cells);
      for (const CellComparison* cell : cells) single = single && std::min(cell->test.n_first, cell->test.n_second) < 2;
    }
  text += '\n';
  if (single) text += "One sample a cell says nothing about the next run: ratios are shown, nothing is judged.\n";
  text += unmatched_text(comparison.only_a, comparison.name_a) + unmatched_text(comparison.only_b, comparison.name_b);
  for (const std::string& note : comparison.notes) text += fmt::format("note: {}\n", note);
  return text;
}

}  // namespace amdahl
