#include "report/markdown.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "amdahl/units.h"
#include "report/study_method.h"
#include "report/words.h"
#include "stats/compare.h"

namespace amdahl {
namespace {

using Row = std::vector<std::string>;

const StudyCell* find_cell(const StudySummary& summary, const CellKey& key) {
  for (const StudyCell& cell : summary.cells)
    if (cell.key == key) return &cell;
  return nullptr;
}

bool starts_as_number(const std::string& cell) {
  return cell == "n/a" || (!cell.empty() && std::string_view("0123456789+-*").find(cell[0]) != std::string_view::npos);
}

// Columns of numbers are right-aligned.
std::string table(const Row& head, const std::vector<Row>& rows) {
  std::string text = fmt::format("| {} |\n|", fmt::join(head, " | "));
  for (size_t i = 0; i < head.size(); ++i) {
    const bool numbers =
        std::all_of(rows.begin(), rows.end(), [&](const Row& row) { return starts_as_number(row[i]); });
    text += numbers ? "---:|" : "---|";
  }
  text += "\n";
  for (const Row& row : rows) text += fmt::format("| {} |\n", fmt::join(row, " | "));
  return text + "\n";
}

std::string rate_words(const StudyCell& cell) {
  return fmt::format("{} (n={})", format_plus_minus(cell.throughput.mean, cell.throughput.ci), cell.throughput.n);
}

std::string bytes_words(const std::optional<double>& bytes) { return bytes ? format_bytes(*bytes) : "n/a"; }

std::string utilisation_words(const StudyCell& single, const StudyCell& multi) {
  const auto one = [](const StudyCell& cell) {
    return cell.utilisation_percent ? fmt::format("{:.0f} %", *cell.utilisation_percent) : std::string("n/a");
  };
  if (!single.utilisation_percent && !multi.utilisation_percent) return "n/a";
  return fmt::format("{} → {}", one(single), one(multi));
}

// Step times in ms, whatever their size: the two sides must be comparable at a glance.
std::string step_words(const StudyCell& single, const StudyCell& multi) {
  return fmt::format("{} → {} ms", format_number(single.step_time_us.mean / 1000),
                     format_number(multi.step_time_us.mean / 1000));
}

std::string advice_words(const StudyComparison& c, const std::string& device_kind) {
  std::string text = recommendation_words(c.recommendation, device_kind);
  if (c.test.more_runs >= kMoreRunsLimit / 2)
    text += " (no feasible number of runs would settle it)";
  else if (c.test.more_runs > 0)
    text += fmt::format(" (about {} more runs would settle it)", with_thousands(c.test.more_runs));
  return text;
}

// Comparisons that share a table: one model, scaling mode, math mode and device count.
struct TableKey {
  std::string model;
  int64_t num_parameters;
  std::string scaling;
  std::string math;
  int64_t devices;
  auto operator<=>(const TableKey&) const = default;
};

std::string result_table(const StudySummary& summary, const TableKey& key,
                         const std::vector<const StudyComparison*>& comparisons) {
  const bool weak = key.scaling == "weak";
  std::vector<Row> rows;
  for (const StudyComparison* c : comparisons) {
    const StudyCell* single = find_cell(summary, c->single);
    const StudyCell* multi = find_cell(summary, c->multi);
    if (!single || !multi) continue;
    const std::string batch = weak ? fmt::format("{} ({})", c->multi.device_batch(), c->multi.global_batch)
                                   : std::to_string(c->multi.global_batch);
    rows.push_back(
        {batch, rate_words(*single), rate_words(*multi), format_speedup(c->test.ratio, c->test.ci),
         std::string(to_string(c->test.verdict)), format_percent(c->efficiency), step_words(*single, *multi),
         fmt::format("{} → {}", bytes_words(single->memory_peak_bytes), bytes_words(multi->memory_peak_bytes)),
         utilisation_words(*single, *multi), advice_words(*c, summary.device_kind),
         escape_markdown(fmt::format("{} → {}", configuration_words(c->single), configuration_words(c->multi)))});
  }
  const DeviceWords words = device_words(summary.device_kind);
  const std::string batch_head = weak ? "Device batch (global)" : "Global batch";
  return fmt::format("### {}, {} parameters, {} scaling, {}: 1 → {} {}\n\n", escape_markdown(key.model),
                     with_thousands(key.num_parameters), escape_markdown(key.scaling), escape_markdown(key.math),
                     key.devices, words.many) +
         table({batch_head, fmt::format("1 {} (samples/s)", words.one),
                fmt::format("{} {} (samples/s)", key.devices, words.many), "Speedup [95 % CI]", "Verdict", "Efficiency",
                "Time per step", "Peak memory per device", "Utilisation", "Recommendation",
                "Configuration, one → several"},
               rows);
}

std::string results_section(const StudySummary& summary) {
  std::map<TableKey, std::vector<const StudyComparison*>> tables;
  for (const StudyComparison& c : summary.comparisons)
    tables[{c.multi.model, c.multi.num_parameters, c.multi.scaling, c.multi.math, c.multi.devices}].push_back(&c);
  std::string text = "## Results\n\n";
  if (tables.empty()) text += "No cell on several devices has a one-device baseline.\n\n";
  for (const auto& [key, comparisons] : tables) text += result_table(summary, key, comparisons);
  return text;
}

std::string averages_section(const StudySummary& summary) {
  if (summary.averages.empty()) return {};
  std::vector<Row> rows;
  for (const AverageSpeedup& a : summary.averages)
    rows.push_back(
        {escape_markdown(fmt::format("{}, {} scaling, {}, {}, {}", a.model, a.scaling, a.math, a.strategy, a.launch)),
         std::to_string(a.devices), std::to_string(a.num_batches), format_speedup(a.geometric_mean, a.ci),
         average_words(a, summary.device_kind)});
  return "## Average speedup\n\nGeometric mean of the speedups over the batches of each row.\n\n" +
         table({"Configuration", "Devices", "Batches", "Average speedup [95 % CI]", "Recommendation"}, rows);
}

// One unit for the whole table: ms once a step takes at least 1 ms.
struct TimeUnit {
  const char* name;
  double us;
};

constexpr double kAccountTolerance = 0.02;  // beyond it the parts do not explain the step, and the report says so

std::string unexplained_words(const StepAccount& account) {
  const double share = account.step_us > 0 ? account.unaccounted_us() / account.step_us : 0.0;
  if (std::abs(share) > kAccountTolerance) return fmt::format("**{:+.1f} %**", 100 * share);
  return std::abs(share) < 0.0005 ? "0.0 %" : fmt::format("{:+.1f} %", 100 * share);
}

Row account_row(const StudyCell& cell, const TimeUnit& unit) {
  const StepAccount& a = *cell.account;
  const auto time = [&](double us) { return format_number(us / unit.us); };
  const auto ratio = [&](double communication) {
    const double whole = a.compute_us + communication;
    return whole > 0 ? format_percent(communication / whole) : std::string("n/a");
  };
  return {escape_markdown(fmt::format("{}, {}, {}", cell.key.model, cell.key.scaling, cell.key.math)),
          std::to_string(cell.key.global_batch),
          std::to_string(cell.key.devices),
          escape_markdown(configuration_words(cell.key)),
          std::to_string(a.n),
          time(a.forward_us),
          time(a.backward_us),
          time(a.compute_us),
          time(a.exposed_communication_us),
          time(a.waiting_us),
          time(a.launch_gaps_us),
          time(a.input_us),
          time(a.optimizer_us),
          time(a.step_us),
          unexplained_words(a),
          time(a.total_communication_us),
          fmt::format("{} / {}", ratio(a.exposed_communication_us), ratio(a.total_communication_us)),
          format_bytes(a.comm_bytes)};
}

std::string account_section(const StudySummary& summary) {
  TimeUnit unit{"us", 1};
  bool any = false;
  for (const StudyCell& cell : summary.cells) {
    if (!cell.account) continue;
    any = true;
    if (cell.account->step_us >= 1000) unit = {"ms", 1000};
  }
  if (!any) return {};
  std::vector<Row> rows;
  for (const StudyCell& cell : summary.cells)
    if (cell.account) rows.push_back(account_row(cell, unit));
  return fmt::format(
             "## Where a step's time goes\n\nAll times in {}, mean over runs of the mean accounted step; n is the "
             "number of runs. Compute, exposed communication, waiting, launch gaps, input and optimizer add up to "
             "the step; what they leave unexplained stands beside it, bold beyond 2 %. Forward and backward are parts "
             "of compute. "
             "The communication ratio is communication / (compute + communication), exposed and total.\n\n",
             unit.name) +
         table({"Model", "Global batch", "Devices", "Configuration", "n", "Forward", "Backward", "Compute",
                "Exposed comm", "Waiting", "Launch gaps", "Input", "Optimizer", "Step", "Unexplained", "Total comm",
                "Comm ratio", "Comm per step"},
               rows);
}

std::string cells_section(const StudySummary& summary) {
  std::vector<Row> rows;
  for (const StudyCell& cell : summary.cells) {
    if (cell.throughput.n == 0) continue;
    const SampleSummary& s = cell.throughput;
    const SampleSummary& t = cell.step_time_us;
    rows.push_back({escape_markdown(cell_words(cell.key)), std::to_string(s.n), format_plus_minus(s.mean, s.ci),
                    format_number(s.sd), format_number(s.median), std::to_string(s.num_outliers),
                    format_plus_minus(s.mean_without_outliers, s.ci_without_outliers), format_plus_minus(t.mean, t.ci),
                    std::to_string(t.num_outliers)});
  }
  if (rows.empty()) return {};
  return "## Every cell\n\nSamples/s with and without flagged outliers (modified z above 3.5); nothing was "
         "dropped.\n\n" +
         table({"Cell", "n", "Mean ± 95 % CI (samples/s)", "SD", "Median", "Outliers", "Mean without outliers",
                "Step (us)", "Step outliers"},
               rows);
}

std::string missing_section(const StudySummary& summary) {
  std::vector<Row> rows;
  for (const StudyCell& cell : summary.cells)
    if (cell.status.kind != Status::Kind::ok)
      rows.push_back({escape_markdown(cell_words(cell.key)),
                      cell.status.kind == Status::Kind::waived ? "waived" : "failed",
                      escape_markdown(cell.status.reason.empty() ? "no reason recorded" : cell.status.reason)});
  std::string text;
  if (!rows.empty()) text += "## Cells without a result\n\n" + table({"Cell", "Status", "Reason"}, rows);
  if (!summary.notes.empty()) {
    text += "## Notes\n\n";
    for (const std::string& note : summary.notes) text += "- " + escape_markdown(note) + "\n";
    text += "\n";
  }
  return text;
}

std::string provenance_section(const StudySummary& summary) {
  std::vector<Row> rows;
  for (const auto& [name, value] : study_provenance(summary))
    rows.push_back({escape_markdown(name), escape_markdown(value)});
  return rows.empty() ? std::string() : "## Provenance\n\n" + table({"What", "Value"}, rows);
}

std::string method_section(const StudySummary& summary) {
  std::string text = "## How it was measured\n\n";
  for (const std::string& line : study_method(summary)) text += fmt::format("- {}\n", line);
  return text;
}

}  // namespace

std::string study_markdown(const StudySummary& summary) {
  std::string text = fmt::format("# {}\n\n", escape_markdown(summary.conclusion));
  if (summary.device_kind == "cpu-virtual")
    text +=
        "**Measured on CPU virtual devices, not GPUs**: CPU threads stand in for devices. These numbers say nothing "
        "about "
        "a GPU.\n\n";
  for (const AverageSpeedup& a : summary.averages)
    text += fmt::format("- {}, {} scaling, {}, {}, {} {}: average speedup {} (geometric mean over {} batch{}): {}.\n",
                        escape_markdown(a.model), escape_markdown(a.scaling), escape_markdown(a.math),
                        escape_markdown(a.launch), a.devices, device_words(summary.device_kind).many,
                        format_speedup(a.geometric_mean, a.ci), a.num_batches, a.num_batches == 1 ? "" : "es",
                        average_words(a, summary.device_kind));
  if (!summary.averages.empty()) text += "\n";
  return text + results_section(summary) + averages_section(summary) + account_section(summary) +
         cells_section(summary) + missing_section(summary) + provenance_section(summary) + method_section(summary);
}

}  // namespace amdahl
