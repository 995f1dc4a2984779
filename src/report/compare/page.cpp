#include "report/compare/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "amdahl/error.h"
#include "chart/compare_chart.h"
#include "report/compare/tables.h"
#include "report/page/page_parts.h"
#include "stats/compare.h"

namespace amdahl {
namespace {

/// The index of the candidate that a cell belongs to.
size_t run_of(const RunsComparison& comparison, const CellComparison* cell) {
  for (size_t run = 0; run < comparison.against.size(); ++run) {
    const auto& cells = comparison.against[run].cells;
    if (cell >= cells.data() && cell < cells.data() + cells.size()) return run;
  }
  return 0;
}

/// The quantity only, "step time in us" of "step time in us, large, tf32, ...", if only one table has it.
std::string short_title(const std::vector<ComparisonTable>& tables, size_t index) {
  const auto quantity = [](const ComparisonTable& table) { return table.title.substr(0, table.title.find(", ")); };
  const std::string words = quantity(tables[index]);
  const auto same = std::count_if(tables.begin(), tables.end(),
                                  [&](const ComparisonTable& table) { return quantity(table) == words; });
  return same == 1 ? words : tables[index].title;
}

std::optional<Chart> chart_of(const RunsComparison& comparison, const std::vector<ComparisonTable>& tables,
                              size_t index) {
  const ComparisonTable& table = tables[index];
  SpeedPlot plot;
  plot.id = fmt::format("speed-{}", index + 1);
  plot.title = fmt::format("Speed over A by {}", short_title(tables, index));
  double lowest = 0, highest = 0;
  for (size_t row = 0; row < table.cells.size(); ++row) {
    const CellComparison& cell = *table.cells[row];
    const PairTest speed = mirrored(cell.test);
    const std::string run = run_letter(run_of(comparison, &cell) + 1);
    plot.dots.push_back({table.names[row], run, speed.ratio, speed.ci, std::string(to_string(speed.verdict)),
                         cell.test.n_first, cell.test.n_second});
    lowest = row == 0 ? speed.ratio : std::min(lowest, speed.ratio);
    highest = std::max(highest, speed.ratio);
  }
  plot.summary = fmt::format("Speeds over A from {:.3f}x to {:.3f}x in {} case{}; above 1 the run is faster.", lowest,
                             highest, plot.dots.size(), plot.dots.size() == 1 ? "" : "s");
  std::optional<Chart> chart = compare_chart(plot);
  for (const CellComparison* cell : table.cells)
    if (chart) chart->origin = std::max(chart->origin, cell->origin);
  return chart;
}

/// Who is A, B, ..., and how they were judged, one line per method used.
std::vector<std::string> runs_and_method(const RunsComparison& comparison) {
  std::vector<std::string> lines{fmt::format("A (baseline) is {}", comparison.against.front().name_a)};
  for (size_t i = 0; i < comparison.against.size(); ++i)
    lines.push_back(fmt::format("{} is {}", run_letter(i + 1), comparison.against[i].name_b));

  lines.emplace_back("Above 1x, the run is faster than A.");
  std::set<TestLevel> levels;
  for (const RunComparison& run : comparison.against)
    for (const CellComparison& cell : run.cells) levels.insert(cell.test.level);
  if (levels.contains(TestLevel::processes))
    lines.emplace_back("Verdicts are between processes: Welch's test on the medians of fresh processes.");
  if (levels.contains(TestLevel::calibrated))
    lines.emplace_back("Sides of one process are judged by the spread of processes in the machine file.");
  if (levels.contains(TestLevel::none))
    lines.push_back(named(
        "One process per side: no verdict, for the next process may differ. Measure both sides with `processes=5`, "
        "or calibrate this machine once (amdahl "
        "calibrate)."));
  return lines;
}

/// The three cells with the largest change among those with a verdict.
std::vector<std::string> facts_of(const RunsComparison& comparison, const std::vector<ComparisonTable>& tables) {
  struct Move {
    double ratio;  // at least 1: slower over faster
    std::string words;
  };
  std::vector<Move> moves;
  for (const ComparisonTable& table : tables)
    for (size_t row = 0; row < table.cells.size(); ++row) {
      const PairTest speed = mirrored(table.cells[row]->test);
      if (speed.verdict != Verdict::faster && speed.verdict != Verdict::slower) continue;
      moves.push_back(
          {std::max(speed.ratio, 1 / speed.ratio),
           fmt::format("{} is {} than A: {} (n={}+{}, {})", run_letter(run_of(comparison, table.cells[row]) + 1),
                       speed.verdict == Verdict::faster ? "faster" : "slower", format_speedup(speed.ratio, speed.ci),
                       speed.n_second, speed.n_first, table.names[row])});
    }
  std::stable_sort(moves.begin(), moves.end(), [](const Move& a, const Move& b) { return a.ratio > b.ratio; });
  std::vector<std::string> facts;
  for (size_t i = 0; i < std::min<size_t>(3, moves.size()); ++i) facts.push_back(moves[i].words);
  return facts;
}

bool has_emulated(const RunsComparison& comparison) {
  return std::any_of(comparison.against.begin(), comparison.against.end(), [](const RunComparison& run) {
    return std::any_of(run.cells.begin(), run.cells.end(),
                       [](const CellComparison& cell) { return cell.origin == Origin::emulated; });
  });
}

}  // namespace

Page compare_page(const RunsComparison& comparison, const std::string& json) {
  const RunComparison& first = comparison.against.front();
  const std::vector<ComparisonTable> tables = comparison_tables(comparison);
  Page page;
  page.title = fmt::format("Comparison with {}", first.name_a);
  if (first.device_kind == "cpu-virtual") page.qualifier = "measured on CPU virtual devices, not GPUs";
  if (has_emulated(comparison))
    page.qualifier += page.qualifier.empty() ? "some numbers are emulated" : "; some numbers are emulated";
  page.verdict = comparison_verdict(comparison);
  page.facts = facts_of(comparison, tables);
  page.sections.push_back({"runs", "Runs", runs_and_method(comparison), {}, {}});
  for (size_t i = 0; i < tables.size(); ++i) {
    PageSection section;
    section.anchor = fmt::format("cells-{}", i + 1);
    section.title = short_title(tables, i);
    if (section.title != tables[i].title)
      section.paragraphs.push_back(tables[i].title.substr(section.title.size() + 2) + ".");
    section.details.emplace_back(
        "Verdicts by Welch's test with Holm's adjustment over all cells of this page; SAME within 1 %; UNCLEAR is an "
        "answer.");
    if (auto chart = chart_of(comparison, tables, i)) section.charts.push_back(std::move(*chart));
    section.tables.push_back(table_of_texts("Every cell", tables[i].head, tables[i].rows));
    page.sections.push_back(std::move(section));
  }
  page.notes = comparison_remarks(comparison);
  page.embedded_json = json;
  return page;
}

}  // namespace amdahl
