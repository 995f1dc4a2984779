#include "report/compare/tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "amdahl/error.h"
#include "chart/document.h"
#include "report/common/settings.h"
#include "report/common/words.h"
#include "stats/compare.h"
#include "stats/percentile.h"

namespace amdahl {
namespace {

using AxisSet = std::set<std::string>;

// Order of the leading table columns. "count" is omitted because "bytes" and "dtype" imply it; bucket, optimizer and
// the like are shown if they vary.
constexpr const char* kColumns[] = {"model",      "num_parameters", "global_batch", "test",    "source", "destination",
                                    "collective", "dtype",          "op",           "root",    "mode",   "workload",
                                    "strategy",   "devices",        "bytes",        "in_place"};
constexpr const char* kHidden = "count";
constexpr size_t kMostUnmatched = 5;  // limit of listed cells without a counterpart; the JSON has all

struct Entry {
  const CellComparison* cell;
  size_t run;  // index into RunsComparison::against
};

std::string axis_of(const CellComparison& cell, const std::string& name) {
  const auto found = cell.axes.find(name);
  return found == cell.axes.end() ? "-" : axis_value(name, found->second);
}

/// Axes of these cells, split into varying and constant ones.
std::pair<std::vector<std::string>, std::vector<std::string>> columns_of(const std::vector<Entry>& entries) {
  AxisSet names;
  for (const Entry& entry : entries)
    for (const auto& [name, value] : entry.cell->axes)
      if (name != kHidden) names.insert(name);
  std::vector<std::string> ordered;
  for (const char* name : kColumns)
    if (names.erase(name) > 0) ordered.emplace_back(name);
  ordered.insert(ordered.end(), names.begin(), names.end());
  std::vector<std::string> varying, fixed;
  for (const std::string& name : ordered) {
    const std::string first = axis_of(*entries.front().cell, name);
    const bool same =
        std::all_of(entries.begin(), entries.end(), [&](const Entry& e) { return axis_of(*e.cell, name) == first; });
    (same ? fixed : varying).push_back(name);
  }
  return {varying, fixed};
}

/// Sorts by the columns in order, and within a cell by run.
void sort_entries(std::vector<Entry>& entries, const std::vector<std::string>& columns) {
  std::stable_sort(entries.begin(), entries.end(), [&](const Entry& a, const Entry& b) {
    for (const std::string& name : columns) {
      const auto left = a.cell->axes.find(name), right = b.cell->axes.find(name);
      const bool has_left = left != a.cell->axes.end(), has_right = right != b.cell->axes.end();
      if (has_left != has_right) return has_right;
      if (has_left && left->second != right->second) return left->second < right->second;
    }
    return a.run < b.run;
  });
}

std::string value_text(const SampleSummary& value) {
  const auto [median, ci] = value.estimate();
  const std::string text = format_number(median);
  return ci ? fmt::format("{} [{}, {}]", text, format_number(ci->low), format_number(ci->high)) : text;
}

std::string speed_text(const PairTest& speed) {
  // Three decimals without an interval, to show differences of a percent.
  return speed.ci ? format_speedup(speed.ratio, speed.ci) : fmt::format("{:.3f}x", speed.ratio);
}

/// "50", or "5x10": five processes of ten runs each.
std::string runs_text(const SampleSummary& side) {
  if (side.num_processes < 2) return std::to_string(side.n);
  return fmt::format("{}x{:g}", side.num_processes,
                     std::round(10 * static_cast<double>(side.n) / static_cast<double>(side.num_processes)) / 10);
}

std::string verdict_or_none(const PairTest& speed, Origin origin) {
  const std::string emulated = origin == Origin::measured ? "" : fmt::format(", {}", origin_text(origin));
  return verdict_text(speed) + emulated;
}

ComparisonTable table_of(std::vector<Entry> entries, bool several) {
  const auto [varying, fixed] = columns_of(entries);
  sort_entries(entries, varying);
  const CellComparison& any = *entries.front().cell;
  ComparisonTable table;
  table.title = fmt::format("{} in {}", format_axis(any.series), any.unit);
  for (const std::string& name : fixed)
    if (const std::string setting = setting_text(name, any.axes.at(name)); !setting.empty())
      table.title += ", " + setting;
  for (const std::string& name : varying) table.head.push_back(printable(format_axis(name), 40));
  if (several) table.head.emplace_back("run");
  const std::string candidate = several ? "run" : "B";
  for (const std::string& name : {std::string("A"), candidate, candidate + " over A [95 % CI]", std::string("n"),
                                  std::string("p (Holm)"), std::string("verdict")})
    table.head.push_back(name);
  const bool has_share = std::any_of(entries.begin(), entries.end(), [](const Entry& entry) {
    return entry.cell->model_flop_share_a || entry.cell->model_flop_share_b;
  });
  if (has_share) table.head.insert(table.head.end(), {"MFU of A", "MFU of " + candidate});
  for (const Entry& entry : entries) {
    const CellComparison& cell = *entry.cell;
    const PairTest speed = mirrored(cell.test);
    std::vector<std::string> row, settings;
    for (const std::string& name : varying) {
      row.push_back(axis_of(cell, name));
      if (const auto found = cell.axes.find(name); found != cell.axes.end())
        settings.push_back(setting_text(name, found->second));
    }
    table.names.push_back(settings.empty() ? "the one cell" : fmt::format("{}", fmt::join(settings, ", ")));
    if (several) row.push_back(run_letter(entry.run + 1));
    row.push_back(value_text(cell.a));
    row.push_back(value_text(cell.b));
    row.push_back(speed_text(speed));
    row.push_back(fmt::format("{}+{}", runs_text(cell.a), runs_text(cell.b)));
    row.push_back(speed.ci ? format_p(speed.p_holm).substr(2) : "n/a");
    row.push_back(verdict_or_none(speed, cell.origin));
    if (has_share)
      for (const std::optional<double>& share : {cell.model_flop_share_a, cell.model_flop_share_b})
        row.push_back(share ? fmt::format("{:.1f} %", 100 * *share) : "-");
    table.rows.push_back(std::move(row));
    table.cells.push_back(&cell);
  }
  return table;
}

bool judged(const RunComparison& run) {
  return std::any_of(run.cells.begin(), run.cells.end(),
                     [](const CellComparison& cell) { return cell.test.level != TestLevel::none; });
}

std::string verdict_of(const RunComparison& run, const std::string& letter) {
  std::map<Verdict, size_t> counts;
  size_t too_few = 0;
  std::vector<double> speeds;
  for (const CellComparison& cell : run.cells) {
    ++(cell.test.level != TestLevel::none && has_too_few_runs(cell.test) ? too_few
                                                                         : counts[mirrored(cell.test).verdict]);
    speeds.push_back(mirrored(cell.test).ratio);
  }
  const size_t total = run.cells.size();
  const bool emulated = std::all_of(run.cells.begin(), run.cells.end(),
                                    [](const CellComparison& cell) { return cell.origin == Origin::emulated; });
  const std::string cells = fmt::format("{}cell{}", emulated ? "emulated " : "", total == 1 ? "" : "s");
  const std::string median = fmt::format("median speed {:.3f}x", percentile(speeds, 50));
  if (!judged(run))
    return fmt::format(
        "{} against A: {} {} measured by one process per side, which says nothing about the next process: not judged "
        "({}).",
        letter, total, cells, median);
  std::vector<std::string> parts;
  for (const auto& [verdict, word] : {std::pair{Verdict::faster, "faster"},
                                      {Verdict::slower, "slower"},
                                      {Verdict::same, "the same"},
                                      {Verdict::unclear, "unclear"}})
    if (counts[verdict] > 0) parts.push_back(fmt::format("{} in {}", word, counts[verdict]));
  if (too_few > 0) parts.push_back(fmt::format("too few runs in {}", too_few));
  return fmt::format("{} against A: {} of {} {} ({}).", letter, fmt::join(parts, ", "), total, cells, median);
}

void add_unmatched(const std::vector<std::string>& cells, const std::string& name, std::vector<std::string>& lines) {
  for (size_t i = 0; i < std::min(cells.size(), kMostUnmatched); ++i)
    lines.push_back(fmt::format("only in {}: {}", name, printable(cells[i], 200)));
  if (cells.size() > kMostUnmatched)
    lines.push_back(fmt::format("only in {}: {} more cells, {} lists them", name, cells.size() - kMostUnmatched,
                                named_reference({{"json"}})));
}

}  // namespace

std::string run_letter(size_t index) {
  std::string letter(1, static_cast<char>('A' + index % 26));
  return index < 26 ? letter : run_letter(index / 26 - 1) + letter;
}

std::string comparison_verdict(const RunsComparison& comparison) {
  std::vector<std::string> sentences;
  for (size_t i = 0; i < comparison.against.size(); ++i)
    sentences.push_back(verdict_of(comparison.against[i], run_letter(i + 1)));
  return fmt::format("{}", fmt::join(sentences, " "));
}

std::vector<ComparisonTable> comparison_tables(const RunsComparison& comparison) {
  std::vector<std::pair<std::string, std::string>> order;  // kind and series, in order of appearance
  std::map<std::pair<std::string, std::string>, std::vector<Entry>> entries;
  for (size_t run = 0; run < comparison.against.size(); ++run)
    for (const CellComparison& cell : comparison.against[run].cells) {
      const std::pair key{cell.kind, cell.series};
      if (!entries.contains(key)) order.push_back(key);
      entries[key].push_back({&cell, run});
    }
  std::vector<ComparisonTable> tables;
  for (const auto& key : order) tables.push_back(table_of(entries[key], comparison.against.size() > 1));
  return tables;
}

std::vector<std::string> comparison_remarks(const RunsComparison& comparison) {
  std::vector<std::string> lines;
  const auto add = [&](std::string line) {
    if (std::find(lines.begin(), lines.end(), line) == lines.end()) lines.push_back(std::move(line));
  };
  for (const RunComparison& run : comparison.against) {
    std::vector<std::string> unmatched;
    add_unmatched(run.only_a, run.name_a, unmatched);
    add_unmatched(run.only_b, run.name_b, unmatched);
    for (const std::string& line : unmatched)
      add(comparison.against.size() > 1 ? fmt::format("{} ({} against {})", line, run.name_b, run.name_a) : line);
    for (const std::string& note : run.notes) add(note);
  }
  return lines;
}

}  // namespace amdahl
