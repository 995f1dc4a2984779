#include "report/study/markdown.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "amdahl/units.h"
#include "report/common/account_text.h"
#include "report/common/words.h"
#include "report/study/break_even.h"
#include "report/study/findings.h"
#include "report/study/method.h"
#include "report/study/methods.h"
#include "report/study/model_rate.h"
#include "report/study/one_device.h"
#include "report/study/serial_fraction.h"
#include "report/study/summary.h"

namespace amdahl {
namespace {

using Row = std::vector<std::string>;

bool starts_as_number(const std::string& cell) {
  return cell == "n/a" || (!cell.empty() && std::string_view("0123456789+-*").find(cell[0]) != std::string_view::npos);
}

// A Markdown table; numeric columns are right-aligned.
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

std::string rate_text(const StudyCell& cell) {
  return fmt::format("{} (n={})", format_plus_minus(cell.throughput.mean, cell.throughput.ci), cell.throughput.n);
}

std::string bytes_text(const std::optional<double>& bytes) { return bytes ? format_bytes(*bytes) : "n/a"; }

std::string utilisation_text(const StudyCell& single, const StudyCell& multi) {
  const auto one = [](const StudyCell& cell) {
    return cell.utilisation_percent ? fmt::format("{:.0f} %", *cell.utilisation_percent) : std::string("n/a");
  };
  if (!single.utilisation_percent && !multi.utilisation_percent) return "n/a";
  return fmt::format("{} → {}", one(single), one(multi));
}

// Step times, always in ms: the two must be comparable at a glance.
std::string step_text(const StudyCell& single, const StudyCell& multi) {
  return fmt::format("{} → {} ms", format_number(single.step_time_us.mean / 1000),
                     format_number(multi.step_time_us.mean / 1000));
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
        {batch, rate_text(*single), rate_text(*multi), format_speedup(c->test.ratio, c->test.ci),
         escape_markdown(verdict_text(c->test)), format_percent(c->efficiency), step_text(*single, *multi),
         fmt::format("{} → {}", bytes_text(single->memory_peak_bytes), bytes_text(multi->memory_peak_bytes)),
         utilisation_text(*single, *multi), escape_markdown(recommendation_text(*c, summary.device_kind)),
         escape_markdown(fmt::format("{} → {}", configuration_text(c->single), configuration_text(c->multi)))});
  }
  const DeviceWords words = device_text(summary.device_kind);
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

Row escaped(const Row& row) {
  Row cells;
  for (const std::string& cell : row) cells.push_back(escape_markdown(cell));
  return cells;
}

std::string text_table(const TextTable& source) {
  std::vector<Row> rows;
  for (auto row = source.rows.begin() + 1; row != source.rows.end(); ++row) rows.push_back(escaped(*row));
  return fmt::format("## {}\n\n", source.title) + table(source.rows.front(), rows);
}

std::string one_device_markdown(const StudySummary& summary) {
  std::string text;
  for (const TextTable& source : one_device_tables(summary, Charset::utf8)) text += text_table(source);
  for (const std::string& sentence : one_device_sentences(summary))
    text += fmt::format("- {}\n", escape_markdown(sentence));
  return text + "\n";
}

std::string serial_markdown(const StudySummary& summary) {
  const TextTable source = serial_table(summary);
  if (source.rows.empty()) return {};
  return text_table(source) + serial_section(summary).paragraphs.front() + "\n\n";
}

std::string methods_markdown(const StudySummary& summary) {
  const TextTable source = methods_table(summary);
  if (source.rows.empty()) return {};
  return text_table(source) + methods_section(summary).paragraphs.front() + "\n\n";
}

std::string results_section(const StudySummary& summary) {
  std::map<TableKey, std::vector<const StudyComparison*>> tables;
  for (const StudyComparison& c : summary.comparisons)
    tables[{c.multi.model, c.multi.num_parameters, c.multi.scaling, c.multi.math, c.multi.devices}].push_back(&c);
  if (summary.one_device) return one_device_markdown(summary);
  std::string text = "## Results\n\n";
  if (!tables.empty()) text += fmt::format("Columns: {}.\n\n", escape_markdown(verdict_legend()));
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
         average_text(a, summary.device_kind)});
  return "## Average speedup\n\nGeometric mean of the speedups over the batches of each row.\n\n" +
         table({"Configuration", "Devices", "Batches", "Average speedup [95 % CI]", "Recommendation"}, rows);
}

// One unit for the whole table: ms when some step takes at least 1 ms.
struct TimeUnit {
  const char* name;
  double us;
};

constexpr double kExplained = 0.02;  // above this difference the parts do not explain the step, and the report says so

std::string unexplained_text(const StepAccount& account, const TimeUnit& unit) {
  if (std::abs(account.unaccounted_us()) < 1e-6 * account.step_us) return "0";
  std::string time = format_number(account.unaccounted_us() / unit.us);
  if (!account.trusted()) return time;
  const double share = account.unaccounted_us() / account.measured_us;
  if (std::abs(share) > kExplained) return fmt::format("**{} ({:+.1f} %)**", time, 100 * share);
  return fmt::format("{} ({:+.1f} %)", time, 100 * share);
}

Row account_row(const StudyCell& cell, const TimeUnit& unit) {
  const StepAccount& a = *cell.account;
  const auto time = [&](double us) { return format_number(us / unit.us); };
  const auto ratio = [&](double communication) {
    const double whole = a.compute_us + communication;
    return whole > 0 && a.trusted() ? format_percent(communication / whole) : std::string("n/a");
  };
  return {escape_markdown(fmt::format("{}, {}, {}", cell.key.model, cell.key.scaling, cell.key.math)),
          std::to_string(cell.key.global_batch),
          std::to_string(cell.key.devices),
          escape_markdown(configuration_text(cell.key)),
          std::to_string(a.n),
          a.measured_us > 0 ? time(a.measured_us) : "n/a",
          time(a.step_us),
          account_ratio_text(a),
          a.by_differences ? time(a.noise_us) : "n/a",
          time(a.forward_us),
          time(a.backward_us),
          time(a.compute_us),
          time(a.exposed_communication_us),
          time(a.waiting_us),
          time(a.launch_gaps_us),
          time(a.input_us),
          time(a.optimizer_us),
          unexplained_text(a, unit),
          a.launch_kernels > 0 ? fmt::format("{} ({:.0f})", time(a.launch_floor_us), a.launch_kernels) : "n/a",
          time(a.total_communication_us),
          fmt::format("{} / {}", ratio(a.exposed_communication_us), ratio(a.total_communication_us)),
          format_bytes(a.comm_bytes)};
}

std::string break_even_section(const StudySummary& summary) {
  std::string lines;
  for (const StudyGroup& group : groups_of(summary))
    for (const std::string& line : break_even_lines(summary, group))
      lines += fmt::format("- {}\n", escape_markdown(fmt::format("{}: {}", group_text(group), line)));
  return lines.empty() ? lines : "## Break-even\n\n" + lines + "\n";
}

std::string account_section(const StudySummary& summary) {
  TimeUnit unit{"us", 1};
  std::vector<const StudyCell*> cells;
  for (const StudyCell& cell : summary.cells) {
    if (!cell.account) continue;
    cells.push_back(&cell);
    if (cell.account->step_us >= 1000) unit = {"ms", 1000};
  }
  if (cells.empty()) return {};
  std::vector<Row> rows;
  for (const StudyCell* cell : cells) rows.push_back(account_row(*cell, unit));
  std::string text = fmt::format(
      "## Where a step's time goes\n\nAll times in {}, means over n runs. Compute, exposed communication, waiting, "
      "launch gaps, input and optimizer add up to the accounted step; the ratio is accounted / measured step, and "
      "beyond {:.0f} % from 1 no percentages are given. Noise is that of the accounted step in one run. Unexplained is "
      "the measured step less the parts, bold beyond {:.0f} %. The communication ratio is communication / (compute + "
      "communication), exposed and total.\n\n",
      unit.name, 100 * kAccountTolerance, 100 * kExplained);
  text += table({"Model",
                 "Global batch",
                 "Devices",
                 "Configuration",
                 "n",
                 "Measured",
                 "Accounted",
                 "Ratio",
                 "Noise",
                 "Forward",
                 "Backward",
                 "Compute",
                 "Exposed comm",
                 "Waiting",
                 "Launch gaps",
                 "Input",
                 "Optimizer",
                 "Unexplained",
                 "Launch floor (kernels)",
                 "Total comm",
                 "Comm ratio",
                 "Comm per step"},
                rows);
  for (const std::string& remark : account_remarks(cells)) text += fmt::format("- {}\n", escape_markdown(remark));
  if (const std::string target = communication_target_line(summary); !target.empty())
    text += fmt::format("- {}\n", escape_markdown(target));
  return text + "\n";
}

std::string cells_section(const StudySummary& summary) {
  std::vector<Row> rows;
  for (const StudyCell& cell : summary.cells) {
    if (cell.throughput.n == 0) continue;
    const SampleSummary& s = cell.throughput;
    const SampleSummary& t = cell.step_time_us;
    rows.push_back({escape_markdown(format_cell(cell.key)), std::to_string(s.n), format_plus_minus(s.mean, s.ci),
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
      rows.push_back({escape_markdown(format_cell(cell.key)),
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
                        escape_markdown(a.launch), a.devices, device_text(summary.device_kind).many,
                        format_speedup(a.geometric_mean, a.ci), a.num_batches, a.num_batches == 1 ? "" : "es",
                        average_text(a, summary.device_kind));
  const std::vector<std::string> rates = model_rate_sentences(summary);
  for (const std::string& sentence : rates) text += fmt::format("- {}.\n", escape_markdown(sentence));
  if (!summary.averages.empty() || !rates.empty()) text += "\n";
  return text + results_section(summary) + averages_section(summary) + break_even_section(summary) +
         methods_markdown(summary) + serial_markdown(summary) + account_section(summary) + cells_section(summary) +
         missing_section(summary) + provenance_section(summary) + method_section(summary);
}

}  // namespace amdahl
